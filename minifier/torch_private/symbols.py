"""Symbolic sizes of a backend call: read Dynamo's facts about them and create equal ones."""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import AttrSource, LocalSource, TensorProperty, TensorPropertySource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatefulSymbolicContext,
    compute_unbacked_bindings,
    constrain_range,
)

from minifier.interfaces.declared import SYMBOLS, TORCH, stands_on
from minifier.interfaces.names import DYNAMIC_MARKS
from minifier.torch_private.fakes import static_context

_ENV = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_VALUES = stands_on(f"{_ENV}.backed_var_to_val", f"{_ENV}.var_to_val", loses=SYMBOLS)  # the latter up to 2.11
_RANGES = stands_on(f"{_ENV}.var_to_range", loses=SYMBOLS)
_DUCKS = stands_on(f"{_ENV}.val_to_var", loses=SYMBOLS)
_NUMBERS = stands_on(f"{_ENV}._generate_unique_id", loses=SYMBOLS)
_USED_NUMBERS = stands_on(f"{_ENV}.unique_ids", loses=SYMBOLS)
_STATIC = stands_on(
    "torch._dynamo.config:assume_static_by_default", loses="whether a script compiles with dynamic=True"
)
_MARK_STATIC = stands_on("torch._dynamo:mark_static", loses="which sizes of a probe's inputs are fixed")

Facts = tuple[str, int | float | None, int | None, int | None]  # name, hint, lower and upper bound


def marked_dims(tensor: torch.Tensor) -> frozenset[int]:
    """Return the dimensions marked by torch._dynamo.mark_dynamic, maybe_mark_dynamic or mark_unbacked."""
    return frozenset(dim for name in DYNAMIC_MARKS for dim in getattr(tensor, name, ()))


def mark_static(tensor: torch.Tensor, dims: Sequence[int]) -> None:
    """Let Dynamo keep these dimensions fixed, also with `dynamic=True`."""
    if _MARK_STATIC.is_here():
        _MARK_STATIC.find()(tensor, list(dims))


def assumes_dynamic() -> bool:
    """Whether Dynamo currently treats every size as symbolic, like with `dynamic=True`."""
    return _STATIC.is_here() and not _STATIC.find()


def _bound(value: Any) -> int | None:
    return int(value) if getattr(value, "is_Integer", False) else None


def symbols_of(values: Sequence[Any]) -> list[Facts]:
    """Return the name, hint, lower and upper bound of each symbol in these example values."""
    facts: dict[str, Facts] = {}
    for value in values:
        numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for number in numbers:
            if not isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                continue
            env = number.node.shape_env
            for symbol in sorted(number.node.expr.free_symbols, key=str):
                backed = (_VALUES.of(env) or {}).get(symbol)
                hint = None if backed is None else float(backed) if backed.is_Float else int(backed)
                bounds = (_RANGES.of(env) or {}).get(symbol)
                low, high = (None, None) if bounds is None else (_bound(bounds.lower), _bound(bounds.upper))
                facts.setdefault(str(symbol), (str(symbol), hint, low, high))
    return list(facts.values())


class _Named(ShapeEnv):
    """A shape environment whose next symbol gets the given number."""

    next_number: int | None = None

    def _generate_unique_id(self, *args: Any, **kwargs: Any) -> int:
        number, self.next_number = self.next_number, None
        used = _USED_NUMBERS.of(self)
        if number is None or used is None or number in used:
            return super()._generate_unique_id(*args, **kwargs)
        used.add(number)
        return number


class SymbolicSizes:
    """Symbols and fake tensors of a graph, as AOTAutograd hands them to a compiler."""

    def __init__(self) -> None:
        self.env = _Named(tracked_fakes=[])  # torch.export needs the list, if a backend exports
        # A graph may hold real tensors, which become fake on first use.
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)

    def size(self, name: str, hint: int, *, duck: bool, low: int | None = None, high: int | None = None) -> Any:
        """Return a symbol for a size. With `duck`, strides of the same value become this symbol, too."""
        self._call_next(name)
        symbol = self.env.create_symbol(hint, LocalSource(name), DimDynamic.DYNAMIC)
        if duck:
            known = _DUCKS.of(self.env)
            (known if known is not None else {}).setdefault(hint, symbol)
        return self._bounded(self.env.create_symintnode(symbol, hint=hint), low, high)

    def number(self, name: str, hint: int, low: int | None = None, high: int | None = None) -> Any:
        """Return a symbol for an integer argument."""
        self._call_next(name)
        symint = self.env.create_unspecified_symint_and_symbol(hint, LocalSource(name), DimDynamic.DYNAMIC)
        return self._bounded(symint, low, high)

    def unbacked(self, name: str) -> Any:
        """Return a symbol without a value before the graph runs, like torch._dynamo.decorators.mark_unbacked."""
        with self.env.ignore_fresh_unbacked_symbols():
            return self.env.create_unbacked_symint(LocalSource(name))

    def _call_next(self, name: str) -> None:
        number = re.search(r"\d+$", name)
        self.env.next_number = int(number.group()) if number else None

    def _bounded(self, symint: Any, low: int | None, high: int | None) -> Any:
        if isinstance(symint, torch.SymInt) and isinstance(symint.node.expr, sympy.Symbol):
            constrain_range(symint, min=low, max=high)
        return symint

    def tensor(self, name: str, tensor: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
        """Return the fake tensor for this input; `sizes` has a SymInt for each symbolic size."""
        source = LocalSource(name, is_input=True)
        known: dict[str, sympy.Expr] = {}
        dynamic = []
        for dim, size in enumerate(sizes):
            symbolic = isinstance(size, torch.SymInt)
            dynamic.append(DimDynamic.DYNAMIC if symbolic else DimDynamic.STATIC)
            where = _name_of(TensorPropertySource(source, TensorProperty.SIZE, dim))
            known[where] = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(tensor.shape[dim])
        context: Any = StatefulSymbolicContext(
            dynamic_sizes=dynamic,
            tensor_source=source,
            view_base_context=_base_context(tensor, source),
            shape_env_to_source_to_symbol_cache={id(self.env): known},
        )
        return self.mode.from_tensor(tensor, source=source, symbolic_context=context)

    def trace(self, module: torch.fx.GraphModule, examples: Sequence[Any]) -> None:
        """Run the graph on fake values and store each node's example value, like Dynamo's tracing.

        Symbols may get more specific ranges or become constant. Exceptions of ops propagate.
        """
        placeholders: Any = module.graph.find_nodes(op="placeholder")
        for node, example in zip(placeholders, examples, strict=True):
            node.meta["example_value"] = example
        with self.mode, enable_python_dispatcher():
            _Tracer(module, self).run(*examples)

    @contextlib.contextmanager
    def around_aten(self) -> Iterator[None]:
        """Enter the tracing context in which AOTAutograd calls a compiler, with the fake tensors' own mode."""
        with tracing(TracingContext(self.mode)):
            yield


def _read_name(source: Any) -> Any:
    return source.name


def _call_name(source: Any) -> Any:
    return source.name()


_name_of = _read_name if TORCH >= (2, 10) else _call_name  # a property since then


def _base_context(tensor: torch.Tensor, source: Any) -> Any:
    """Return a context with constant sizes for the base of an input that is a view, else None."""
    base = tensor._base
    return None if base is None else static_context(base, AttrSource(source, "_base"))


class _Tracer(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, sizes: SymbolicSizes) -> None:
        super().__init__(module)
        self._sizes = sizes

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.target is operator.setitem:  # no output has the symbols of its bounds
            with self._sizes.env.ignore_fresh_unbacked_symbols():
                return super().run_node(n)
        value = super().run_node(n)
        if n.op not in ("output", "placeholder"):
            n.meta["example_value"] = value
            if bindings := compute_unbacked_bindings(self._sizes.env, value):
                n.meta["unbacked_bindings"] = bindings
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.Tensor):
            return self._sizes.mode.from_tensor(value, static_shapes=True)
        return value
