"""Random programs: operators of torch's database on each other's results, by a seed."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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
            make = functools.partial(_composed, steps, seed, wanted.training)
            yield Program("composition", dtype, seed, make, has_kin=False)


def _steps(wanted: ProgramFilter, dtype: str) -> Mapping[_Kind, Sequence[_Step]]:
    """Return the samples that programs are made of, by the shape and dtype of each operand."""
    kind = getattr(torch, dtype)
    found: dict[_Kind, list[_Step]] = {}
    for operator in database():
        name = operator.full_name
        if not wanted.has(name) or kind not in operator.supported_dtypes("cpu") or (name, dtype) in wanted.broken:
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
        torch.manual_seed(1)
        results = _tensors(step.function(*step.args, **step.kwargs))
        torch.manual_seed(2)
        again = _tensors(step.function(*step.args, **step.kwargs))
        kept = all(map(torch.equal, flat, before))
        return bool(results) and kept and all(map(torch.equal, results, again)) and all(map(_is_small, results))
    except Exception:  # noqa: BLE001 - an operator less
        return False


def _tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a value, in lists and tuples too."""
    if isinstance(value, (tuple, list)):
        return [tensor for each in value for tensor in _tensors(each)]
    return [value] if isinstance(value, torch.Tensor) else []


def _is_small(value: torch.Tensor) -> bool:
    if value.layout is not torch.strided or value.numel() > _MAX_ELEMENTS:
        return False
    return not value.is_floating_point() or bool((value.abs() < _MAX_SIZE).all())


def _composed(steps: Mapping[_Kind, Sequence[_Step]], seed: int, training: bool) -> Call:
    """Write a program: each step takes earlier values where one has the shape and dtype of an operand."""
    chance, writer = random.Random(seed), Writer()
    everywhere = list({id(step): step for kind in steps for step in steps[kind] if step.is_elementwise}.values())
    values: dict[str, torch.Tensor] = {}
    read: set[str] = set()
    shape: torch.Size | None = None  # of the operands of an elementwise operator

    def operand(given: torch.Tensor) -> str:
        nonlocal shape
        near = [*values][-_NEAR:] if step.is_elementwise else [*values]
        wanted = shape if step.is_elementwise else given.shape
        alike = [n for n in near if values[n].dtype == given.dtype and (wanted is None or values[n].shape == wanted)]
        if alike and (chance.random() < _REUSED or shape is not None):
            chosen = chance.choice(alike[-_NEAR:])
            read.add(chosen)
            shape = values[chosen].shape
            return chosen
        name = writer.tensor(given.detach().clone().requires_grad_(training and given.is_floating_point()))
        values[name] = writer.tensors[-1].detach()
        return name

    for _ in range(chance.randint(*_STEPS)):
        shape = None
        if values and everywhere and chance.random() < _ELEMENTWISE:
            step = chance.choice(everywhere)
        else:
            kinds = [_kind(value) for value in [*values.values()][-_NEAR:] if _kind(value) in steps] or [*steps]
            (kind,) = chance.choices(
                kinds, [len(steps[each]) ** 2 for each in kinds]
            )  # else a kind that few take is a trap
            step = chance.choice(steps[kind])
        known, was_read, parameters = dict(values), set(read), len(writer.tensors)
        text = writer.call(step.function, step.args, step.kwargs, operand)
        try:
            result = eval(text, {**writer.names, **values})
        except Exception:  # noqa: BLE001 - these operands do not fit
            result = None
        is_one = not isinstance(result, (tuple, list))
        results = [result] if is_one else list(result)
        if not all(isinstance(each, torch.Tensor) and _is_small(each) for each in results):
            values, read = known, was_read
            del writer.tensors[parameters:]
            continue
        values.update(zip(writer.assign(text, None if is_one else len(results)), results, strict=True))
    left = [name for name in values if name not in read and name.startswith("value")]
    if not left:
        raise ValueError("no operator fits another one")
    return writer.finished(f"composition {seed}", f"({', '.join(left)},)")
