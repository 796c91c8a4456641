"""What a script can see of its variables: plain values, and of tensors the data, type and gradient.

Each is a leaf with the expression that leads to it, as `model.layers[0].weight.grad` or `len(cache)`. Two runs of a
script are compared leaf by leaf.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

import torch

_MAX_LEAVES = 4000  # of a variable
_MAX_DEPTH = 12
_MAX_SAMPLE = 4096  # of a tensor's elements are compared one by one; of a larger tensor also its sums
_MAX_TEXT_CHARACTERS = 2000
_MAX_ITEMS = 256  # of a container
_MAX_NUMBERS = 4  # of a tensor in a text
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, enum.Enum)
_OWN_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}
_WITHOUT_CONTENT = (type, FunctionType, GeneratorType, ModuleType)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A fact about a value that a script can see.

    Either `text`, an exact fact, or numbers: a sample of a tensor's elements (as float64 or complex128) and the sums
    of all finite ones.
    """

    expression: str
    text: str = ""
    numbers: torch.Tensor | None = None
    sums: tuple[float, ...] = ()
    eps: float = 0.0  # of the dtype

    @property
    def is_exact(self) -> bool:
        """Whether the fact has no rounding."""
        return self.numbers is None or self.eps == 0


def leaves_of(variables: Mapping[str, Any]) -> dict[str, Leaf]:
    """Return the leaves of variables by their expressions, for each at most `_MAX_LEAVES`.

    An object that several variables hold has leaves once. A variable that cannot be looked at has none.
    """
    found: dict[str, Leaf] = {}
    seen: dict[int, Any] = {}
    for name, value in variables.items():
        leaves: dict[str, Leaf] = {}
        with contextlib.suppress(Exception):  # the script's own code may raise in it, or an op of a strange tensor
            for leaf in itertools.islice(_walk(value, name, seen, 0), _MAX_LEAVES):
                leaves.setdefault(leaf.expression, leaf)
            found |= leaves
    return found


def _walk(value: Any, expression: str, seen: dict[int, Any], depth: int) -> Iterator[Leaf]:
    if isinstance(value, torch.Tensor):
        yield from _of_tensor(value, expression, seen)
    elif isinstance(value, float):
        number = torch.tensor([value], dtype=torch.float64, device="cpu")
        yield Leaf(expression, numbers=number, eps=torch.finfo(torch.float64).eps)
    elif isinstance(value, _PLAIN):
        text = repr(value)
        if len(text) <= _MAX_TEXT_CHARACTERS and not _ADDRESS.search(text):
            yield Leaf(expression, text)
    elif isinstance(value, _WITHOUT_CONTENT) or id(value) in seen or depth >= _MAX_DEPTH:
        return
    else:
        seen[id(value)] = value
        yield from _of_object(value, expression, seen, depth + 1)


def _of_tensor(tensor: torch.Tensor, expression: str, seen: dict[int, Any]) -> Iterator[Leaf]:
    if id(tensor) in seen:
        return
    seen[id(tensor)] = tensor
    yield Leaf(f"{expression}.dtype", str(tensor.dtype))
    yield Leaf(f"{expression}.shape", str(tuple(tensor.shape)))
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return
    with torch.no_grad():
        flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
        exact = torch.complex128 if flat.is_complex() else torch.float64
        step = max(1, -(-flat.numel() // _MAX_SAMPLE))
        sample = flat[::step].cpu().to(exact).clone()
        sums: tuple[float, ...] = ()
        if step > 1:
            real = torch.view_as_real(flat) if flat.is_complex() else flat
            finite = real.nan_to_num(0.0, 0.0, 0.0) if real.is_floating_point() else real
            sums = (float(finite.sum(dtype=torch.float64)), float(finite.abs().sum(dtype=torch.float64)))
    is_rounded = flat.is_floating_point() or flat.is_complex()
    yield Leaf(expression, numbers=sample, sums=sums, eps=torch.finfo(flat.dtype).eps if is_rounded else 0.0)
    yield Leaf(f"{expression}.requires_grad", str(tensor.requires_grad))
    if tensor.is_leaf and tensor.requires_grad:
        yield Leaf(f"{expression}.grad is None", str(tensor.grad is None))
        if tensor.grad is not None:
            yield from _of_tensor(tensor.grad, f"{expression}.grad", seen)


def _of_object(value: Any, expression: str, seen: dict[int, Any], depth: int) -> Iterator[Leaf]:
    if isinstance(value, torch.nn.Module):
        items: Iterator[tuple[str, Any]] = _of_module(value)
    elif isinstance(value, Mapping):
        keys = [key for key in value if isinstance(key, (bool, int, str, torch.dtype))][:_MAX_ITEMS]
        yield Leaf(f"len({expression})", str(len(value)))
        items = ((f"[{key!r}]", value[key]) for key in keys)
    elif isinstance(value, Set):
        plain = [repr(item) for item in value if isinstance(item, _PLAIN)]
        if len(plain) == len(value) <= _MAX_ITEMS:
            is_ordered = len({type(item) for item in value}) == 1
            yield Leaf(f"sorted({expression})" if is_ordered else expression, ", ".join(sorted(plain)))
        return
    elif isinstance(value, (Sequence, deque)):
        yield Leaf(f"len({expression})", str(len(value)))
        items = ((f"[{place}]", value[place]) for place in range(min(len(value), _MAX_ITEMS)))
    elif type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "biuf":
        yield from _of_tensor(torch.as_tensor(value.copy(), device="cpu"), f"torch.as_tensor({expression})", seen)
        return
    elif type(value).__module__.partition(".")[0] in ("builtins", "torch", "numpy"):
        return
    else:
        items = ((f".{name}", item) for name, item in _attributes(value))
    for name, item in items:
        yield from _walk(item, f"{expression}{name}", seen, depth)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for name, item in sorted(getattr(value, "__dict__", {}).items()):
        if name.isidentifier() and not name.startswith("__"):
            yield name, item


def _of_module(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield a module's own attributes, parameters, buffers and modules; of a compiled module those of the original."""
    module = module._modules.get("_orig_mod") or module
    for name, item in _attributes(module):
        if name not in _OWN_OF_MODULES:
            yield f".{name}", item
    tensors = {**module._buffers, **module._parameters}
    yield from ((f".{name}", item) for name, item in tensors.items() if item is not None)
    is_numbered = isinstance(module, (torch.nn.Sequential, torch.nn.ModuleList))
    for name, child in module._modules.items():
        if child is not None:
            yield f"[{name}]" if is_numbered and name.isdecimal() else f".{name}", child


_MIN_RELATIVE_ERROR = 1e-3  # of a tensor's largest number; a rounding error that has grown stays below, but for chaos
_MIN_EPSILONS = 8.0  # of a dtype with few digits
_MIN_SHARE_OF_LARGEST = 1e-5, 1e-4  # of the largest number that the script sees, for tensors and for numbers: the
# difference of two results, or a gradient that ought to be zero, is nothing but rounding
_FACTOR_OF_NOISE = 16.0  # a difference is larger than what other rounding changes, by more than an eps in each op


@dataclass(frozen=True, slots=True)
class Unlike:
    """A leaf that differs between two runs. `error` is the largest absolute difference; infinite for other facts."""

    expression: str
    compiled: str
    eager: str
    error: float = math.inf

    @property
    def is_number(self) -> bool:
        """Whether the values differ, as numbers of one shape."""
        return self.error < math.inf


def differences(compiled: Mapping[str, Leaf], eager: Mapping[str, Leaf]) -> list[Unlike]:
    """Return how a variable of a compiled run differs from the eager run's, by more than rounding."""
    rounded = [leaf for leaf in eager.values() if not leaf.is_exact]
    largest = max((scale(leaf) for leaf in rounded), default=0.0)
    coarseness = max((leaf.eps for leaf in rounded), default=0.0) * _MIN_EPSILONS / _MIN_RELATIVE_ERROR
    floor = largest * max(1.0, coarseness)
    found = [_difference(compiled[name], eager[name], floor) for name in eager if name in compiled]
    found += [Unlike(expression, "", _said(eager[expression])) for expression in eager if expression not in compiled]
    found += [Unlike(expression, _said(compiled[expression]), "") for expression in compiled if expression not in eager]
    return [each for each in found if each is not None]


def rounding_in(leaf: Leaf) -> float:
    """Return how large a difference has to be, over the largest number, to be more than rounding."""
    return max(_MIN_RELATIVE_ERROR, _MIN_EPSILONS * leaf.eps)


def scale(leaf: Leaf) -> float:
    """Return the largest finite number of a leaf."""
    numbers = leaf.numbers
    return float(numbers.abs().nan_to_num(0.0, 0.0, 0.0).max()) if numbers is not None and numbers.numel() else 0.0


def _difference(compiled: Leaf, eager: Leaf, floor: float = 0.0) -> Unlike | None:
    """Return how two leaves differ by more than rounding; `floor` is the largest number that the script sees."""
    ours, theirs = compiled.numbers, eager.numbers
    if (ours is None) != (theirs is None):
        return Unlike(f"type({eager.expression}).__name__", _said(compiled), _said(eager))
    if ours is None or theirs is None:
        is_same = compiled.text == eager.text
        return None if is_same else Unlike(eager.expression, compiled.text, eager.text)
    if ours.shape != theirs.shape:
        return None  # the shape is a leaf of its own
    error = _error(ours, theirs)
    relative, limit = 0.0, 0.0
    if not eager.is_exact:
        of_tensor, of_number = _MIN_SHARE_OF_LARGEST
        relative = rounding_in(eager)
        limit = max(relative * scale(eager), floor * (of_tensor if eager.sums or ours.numel() > 1 else of_number))
    sums = [abs(a - b) for a, b in zip(compiled.sums, eager.sums, strict=True)]
    if error <= limit and all(each <= max(limit, relative * eager.sums[-1]) for each in sums):
        return None
    worst = int(_errors(ours, theirs).argmax())
    size = max(error, *sums) if error <= limit else error
    return Unlike(eager.expression, _said(compiled, worst), _said(eager, worst), size)


def _error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return the largest difference of two tensors; a NaN or infinity against another number counts as the largest."""
    return float(_errors(ours, theirs).max()) if ours.numel() else 0.0


def _errors(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    is_same = (ours == theirs) | (ours.isnan() & theirs.isnan())
    errors = (ours - theirs).abs().nan_to_num(torch.finfo(torch.float64).max, torch.finfo(torch.float64).max)
    return errors.masked_fill(is_same, 0.0)


def is_noise(unlike: Unlike, eager: Mapping[str, Leaf], other_eager: Mapping[str, Leaf]) -> bool:
    """Whether two eager runs, the second with other rounding, differ in a leaf in the same way or nearly as much."""
    one, other = eager.get(unlike.expression), other_eager.get(unlike.expression)
    if one is None or other is None:
        return (one is None) != (other is None)
    if one.numbers is None or other.numbers is None or one.numbers.shape != other.numbers.shape:
        return _difference(one, other) is not None
    noise = noise_in(unlike.expression, eager, other_eager)
    return noise > 0 if one.is_exact else _FACTOR_OF_NOISE * noise >= unlike.error


def noise_in(expression: str, eager: Mapping[str, Leaf], other_eager: Mapping[str, Leaf]) -> float:
    """Return the largest difference between the numbers of a leaf in two eager runs; 0 where they have no such."""
    one, other = (each[expression].numbers if expression in each else None for each in (eager, other_eager))
    return 0.0 if one is None or other is None or one.shape != other.shape else _error(one, other)


def _said(leaf: Leaf, telling: int = 0) -> str:
    """Return the fact as text; of a tensor the first numbers, or those from the `telling` one on."""
    if leaf.numbers is None:
        return leaf.text
    first = telling if telling >= _MAX_NUMBERS else 0
    behind = first + _MAX_NUMBERS
    few = ", ".join(f"{number:.6g}" for number in leaf.numbers[first:behind].tolist())
    numel = leaf.numbers.numel()
    return few if numel == 1 else f"[{'..., ' if first else ''}{few}{', ...' if numel > behind else ''}]"
