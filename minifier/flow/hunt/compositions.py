"""Random programs: operators of torch's database, views and writes on each other's results, by a seed."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import random
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier.flow.hunt.databases import database
from minifier.flow.hunt.programs import Call, Program, ProgramFilter, Writer, seed_generators

_SAMPLES = 3  # of each operator
_STEPS = 5, 40  # operators of a program, at least and at most
_MAX_ELEMENTS = 2_000  # of a value
_MAX_SIZE = 1e3  # of a number: larger ones lose the digits that a comparison needs
_REUSED = 0.85  # of the operands that an earlier value can be
_ELEMENTWISE = 0.5  # of the steps
_NEAR = 8  # earlier values of that kind that are read, the latest
_WRITTEN_OUT = 0.4  # of the steps: lines of `_LINES`, not operators of the database
_SPECIAL = 0.5  # of the programs: their inputs have NaN, infinities, -0.0 and extreme integers in them

# Kinds of lines, each with its weight. `a` and `b` are earlier values of one shape and any dtypes, `n` is a number.
# A line that eager mode refuses is left out.
_LINES = {
    "views": (
        3,
        "{a}.transpose(0, -1); {a}.flip(0); {a}[::2]; {a}[..., 1:]; {a}[:1].expand_as({a}); {a}.reshape(-1); "
        "{a}.contiguous(); {a}.clone()",
    ),
    "writes": (
        3,
        "{a}.add_({n}); {a}.add_({b}); {a}.add_({a}.flip(0)); {a}.copy_({b} * 2); {a}[..., 1:].mul_({n}); "
        "{a}.index_put_([torch.tensor([0, -1, 0])], {a}[[0, -1, 0]] * 2); "
        "{a}.index_put_([torch.tensor([0, -1, 0])], {b}[[-1, 0, 0]], accumulate=True); "
        "{a}.index_add_(0, torch.tensor([0, 0]), {b}[[0, -1]])",
    ),
    "numbers and dtypes": (
        2,
        "{a} + {b}; {a} * {b}; {a} + {n}; {n} - {a}; {n} / {a}; {a} // {n}; {a} % {n}; {a}.clamp(max={n}); {a}.relu(); "
        "torch.where({a} > {n}, {a}, {b}); torch.maximum({a}, {b}); {a}.bfloat16()",
    ),
    "orders": (
        2,
        "{a}.argmax(); {a}.argmin(-1); {a}.argmin(0); {a}.cumsum(0); {a}.sort(-1).values; {a}.amax(0); {a}.sum(-1); "
        "torch.cat(({a}, {b}), -1); torch.index_put({a}, [torch.tensor([0, 0])], {b}[[0, -1]], accumulate=True)",
    ),
}
_NUMBERS = "0", "-0.0", "1", "-3", "0.5", "2**62", "torch.inf", "torch.nan"

_SHAPES = (20,), (5, 6), (2, 3, 4, 5)  # of a program's first values
_LAYOUTS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda value: value,
    lambda value: value.mT.contiguous().mT,
    lambda value: value.movedim(1, -1).contiguous().movedim(-1, 1),  # an image is channels_last then
    lambda value: value[:1].expand_as(value),
    lambda value: torch.stack((value, value), -1)[..., 0],
)


@dataclass(frozen=True, slots=True)
class _Step:
    """An operator with the arguments of a sample. An elementwise one takes values of any one shape."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_elementwise: bool


_Kind = tuple[tuple[int, ...], torch.dtype]


def compositions(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield programs without end, one for each seed, of operators that work by themselves, as far as that is known."""
    pools = {dtype: steps for dtype in wanted.dtypes if (steps := _steps(wanted, dtype))}
    for seed in itertools.count() if pools else ():
        for dtype, steps in pools.items():
            make = functools.partial(_composed, steps, getattr(torch, dtype), seed, wanted.training)
            yield Program("composition", dtype, seed, make, has_kin=False)


def _steps(wanted: ProgramFilter, dtype: str) -> Mapping[_Kind, Sequence[_Step]]:
    """Return the samples that programs are made of, by the shape and dtype of each operand."""
    kind = getattr(torch, dtype)
    found: dict[_Kind, list[_Step]] = {}
    for operator in database():
        name = operator.full_name
        is_unsafe = "unsafe" in name  # it does not check indices, or to write to its results is undefined
        is_known = is_unsafe or (name, dtype) in wanted.broken
        if is_known or not wanted.has(name) or kind not in operator.supported_dtypes("cpu"):
            continue
        seed_generators()
        with contextlib.suppress(Exception), warnings.catch_warnings():  # an operator less
            warnings.simplefilter("ignore")
            samples = iter(operator.sample_inputs_func(operator, "cpu", kind, False))
            for sample in itertools.islice(samples, _SAMPLES):
                is_elementwise = type(operator).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")
                step = _Step(operator.op, (sample.input, *sample.args), dict(sample.kwargs), is_elementwise)
                if _is_fit(step):
                    for each in dict.fromkeys(map(_kind, _tensors(step.args))):
                        found.setdefault(each, []).append(step)
    return found


def _kind(value: torch.Tensor) -> _Kind:
    return tuple(value.shape), value.dtype


def _is_fit(step: _Step) -> bool:
    """Whether the operator gives the same small finite tensors each time, and leaves its operands alone."""
    flat = _tensors([step.args, [*step.kwargs.values()]])
    before = [each.clone() for each in flat]
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)  # memory that nothing writes is NaN then
        torch.manual_seed(1)
        results = _tensors(step.function(*step.args, **step.kwargs))
        torch.manual_seed(2)
        again = _tensors(step.function(*step.args, **step.kwargs))
        kept = all(map(torch.equal, flat, before))
        return bool(results) and kept and all(map(torch.equal, results, again)) and all(map(_is_small, results))
    except Exception:  # noqa: BLE001 - an operator less
        return False
    finally:
        torch.use_deterministic_algorithms(False)


def _tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value, in lists and tuples too."""
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in _tensors(each)]
    return [value] if isinstance(value, torch.Tensor) else []


def _is_small(value: torch.Tensor, is_special: bool = False) -> bool:
    if value.layout is not torch.strided or value.numel() > _MAX_ELEMENTS:
        return False
    if is_special and 2 * value.isfinite().sum() > value.numel():  # NaN alone tells nothing of what reads it
        value = value.where(value.isfinite(), 0)
    may_be_large = value.is_complex() or value.dtype is torch.bool or (is_special and not value.is_floating_point())
    return may_be_large or bool((value.abs() < _MAX_SIZE).all())


def _bent(value: torch.Tensor, is_special: bool, chance: random.Random) -> torch.Tensor:
    """Return the contiguous value, as an input that programs forget: of special numbers, or in another layout."""
    specials: list[float] = []
    if is_special and value.is_floating_point():
        specials = [0.0, -0.0, torch.inf, -torch.inf, torch.nan]
    elif is_special and value.dtype in (torch.int64, torch.int16, torch.int8):  # bincount of an int32 takes gigabytes
        specials = [torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max, 0, 1]
    for special in chance.sample(specials, 3) if specials and value.numel() else ():
        value.view(-1)[chance.randrange(value.numel())] = special
    with contextlib.suppress(RuntimeError, IndexError):  # it has too few dimensions
        return chance.choice(_LAYOUTS)(value)
    return value


def _line(values: Mapping[str, torch.Tensor], training: bool, chance: random.Random) -> str:
    """Return a line of `_LINES` on late values."""
    near = [*values][-_NEAR:]
    a = chance.choice(near)
    memory = {name for name in values if _memory(values[name]) == _memory(values[a])}
    inputs = [name for name in memory if name.startswith("tensor")]
    # Autograd refuses most writes, and AOTAutograd those to an expanded input.
    may_write = not training and not any(0 in values[name].stride() for name in (a, *inputs))
    kinds = [kind for kind in _LINES if kind != "writes" or may_write]
    (kind,) = chance.choices(kinds, [_LINES[each][0] for each in kinds])
    # What writes to the memory that it reads is undefined.
    b = chance.choice([a, *(n for n in near if values[n].shape == values[a].shape and n not in memory)])
    return chance.choice(_LINES[kind][1].split("; ")).format(a=a, b=b, n=chance.choice(_NUMBERS))


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


def _composed(steps: Mapping[_Kind, Sequence[_Step]], dtype: torch.dtype, seed: int, training: bool) -> Call:
    """Write a program: each step takes earlier values where one has the shape and dtype of an operand."""
    chance, writer = random.Random(seed), Writer()
    is_special = not training and chance.random() < _SPECIAL
    everywhere = list({id(step): step for kind in steps for step in steps[kind] if step.is_elementwise}.values())
    values: dict[str, torch.Tensor] = {}
    read: set[str] = set()
    has_writes = False
    shape: torch.Size | None = None  # of the operands of an elementwise operator

    def operand(given: torch.Tensor) -> str:
        nonlocal shape
        # What other operators make of infinities is not the same in their decompositions.
        near = [*values][-_NEAR:] if step.is_elementwise else [n for n in values if values[n].isfinite().all()]
        wanted = shape if step.is_elementwise else given.shape
        alike = [n for n in near if values[n].dtype == given.dtype and (wanted is None or values[n].shape == wanted)]
        if alike and (chance.random() < _REUSED or shape is not None):
            chosen = chance.choice(alike[-_NEAR:])
            shape = values[chosen].shape
            return chosen
        return new(given, step.is_elementwise)

    def new(given: torch.Tensor, may_be_special: bool) -> str:
        value = given.detach().clone(memory_format=torch.contiguous_format)
        value = _bent(value, is_special and may_be_special, chance)
        name = writer.tensor(value.requires_grad_(training and value.is_floating_point()))
        values[name] = copy.deepcopy(value.detach())
        return name

    torch.manual_seed(seed)
    first = chance.choice(_SHAPES)
    for _ in range(2):
        new(torch.testing.make_tensor(first, dtype=dtype, device="cpu", low=-3, high=3), may_be_special=True)
    for _ in range(chance.randint(*_STEPS)):
        shape = None
        known, parameters = dict(values), len(writer.tensors)
        if chance.random() < _WRITTEN_OUT:
            values = copy.deepcopy(values)  # what a line writes may turn out to be too large
            text = _line(values, training, chance)
        else:
            if everywhere and chance.random() < _ELEMENTWISE:
                step = chance.choice(everywhere)
            else:
                step = _step(steps, [*values.values()][-_NEAR:], chance)
            text = writer.call(step.function, step.args, step.kwargs, operand)
        try:
            result = eval(text, {**writer.names, **values})
        except Exception:  # noqa: BLE001 - these operands do not fit
            result = None
        is_one = not isinstance(result, (tuple, list))
        results = [result] if is_one else list(result)
        if not all(isinstance(each, torch.Tensor) and _is_small(each, is_special) for each in results):
            values = known
            del writer.tensors[parameters:]
            continue
        has_writes |= "_(" in text
        read |= values.keys() & set(re.findall(r"\w+", text))
        values.update(zip(writer.assign(text, None if is_one else len(results)), results, strict=True))
    return writer.finished(f"composition {seed}", f"({', '.join(_returned(values, read, has_writes))},)")


def _returned(values: Mapping[str, torch.Tensor], read: Collection[str], has_writes: bool) -> list[str]:
    """Return the texts of the values that a program returns. Raises ValueError if there is none."""
    left = [name for name in values if name not in read and name.startswith("value")]
    if not left:
        raise ValueError("no operator fits another one")
    # What is not finite is not compared. Behind a write, AOTAutograd has other strides than eager mode.
    shown = [name if values[name].isfinite().all() else f"{name}.nan_to_num(7, 8, -8)" for name in left]
    if has_writes:
        shown = [f"{text}.clone(memory_format=torch.contiguous_format)" for text in shown]
    return shown


def _step(steps: Mapping[_Kind, Sequence[_Step]], near: Sequence[torch.Tensor], chance: random.Random) -> _Step:
    """Return an operator that one of these values is an operand of, or else any one."""
    kinds = [_kind(value) for value in near if _kind(value) in steps] or [*steps]
    weights = [len(steps[each]) ** 2 for each in kinds]  # else a kind that few take is a trap
    return chance.choice(steps[chance.choices(kinds, weights)[0]])
