"""The eager runs of a comparison, each with its own inputs and module, also in a wider dtype."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.case.graph import Graph, Module, Node, is_in_place, map_leaves
from minifier.data.case.values import Constant
from minifier.data.torch_names import ENTER_AUTOCAST
from minifier.torch_side.compare.results import BackwardPass, RandomStates, Results, are_identical, is_float, observe
from minifier.torch_side.fx.tensors import flat
from minifier.torch_side.torch_private import graphs, unsettled

# Ops whose result jumps at some values of their operands. `div` only with a rounding mode.
_STEP_NAMES = """
    floordiv floor_divide floor ceil trunc fix round sign sgn signbit gt ge lt le eq ne greater greater_equal less
    less_equal not_equal
"""
_STEPS = frozenset(_STEP_NAMES.split())
_DIVISIONS = ("div", "divide")

# Ops that take elements of one tensor as they are.
_MOVE_NAMES = """
    getitem view reshape flatten unflatten expand expand_as unsqueeze squeeze transpose permute movedim swapaxes t
    contiguous clone detach select narrow slice split chunk unbind flip roll
"""
_MOVES = frozenset(_MOVE_NAMES.split())

_MAX_WIDE_BYTES = 2**30  # of inputs and gradients; a comparison may take as much beyond 1.5 times the script's memory

Build = Callable[[Graph], torch.fx.GraphModule]


def _unless_failed(results: Results) -> Results | None:
    return results if results.error is None else None


class EagerRuns:
    """Run a graph eagerly in different ways. After `first`, `drew` says whether it draws random numbers.

    `start` are the random number generators' states at the beginning of a run, by default the states of seed 0.
    `redrawn` and `reference` do not use `start`.
    """

    def __init__(
        self,
        graph: Graph,
        make_inputs: Callable[[], list[Any]],
        build: Build,
        backward: bool,
        start: RandomStates | None = None,
    ) -> None:
        self._graph, self._make_inputs, self._build, self._backward = graph, make_inputs, build, backward
        self.start = start
        self._draws: list[unsettled.Draw] = []
        self.tangents: list[torch.Tensor | None] | None = None
        self.drew = False
        self._count = 0

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return [node.name for node in self._graph.placeholders]

    def first(self) -> Results:
        """Run the graph for the comparison. All later runs use its tangents."""
        results = self._run()
        self.tangents, self.drew = results.tangents, results.drew
        return results

    def again(self) -> Results | None:
        """Run exactly as first. None if eager raises."""
        return _unless_failed(self._run())

    def observed(self) -> Results | None:
        """Run as first, but under a dispatch mode that only records draws. None if eager raises.

        Some composite ops compute something else under any mode. Then no run under a mode tells about eager.
        """
        self._draws.clear()
        results = _unless_failed(self._run(within=functools.partial(unsettled.NotingDraws, self._draws)))
        if results is None:  # perhaps because the draws were recorded
            self._draws.clear()
        return results

    def moved(self, steps: float) -> Results | None:
        """Run with inputs moved by `steps` eps and no other change. None if eager raises."""
        return _unless_failed(self._run(steps=steps))

    def variation(self, steps: float, unwritten: float) -> Results | None:
        """Run with inputs moved by `steps` eps. Every op rounds differently, and all that torch leaves undefined
        varies: unwritten memory is `unwritten`, and equal elements have another order. None if eager raises."""
        within = functools.partial(unsettled.Unsettled, steps, self._count, unwritten)
        results = _unless_failed(self._run(steps=steps, within=within))
        return results or self.moved(steps)

    def redrawn(self, seed: int) -> Results | None:
        """Run with other random numbers and no other change. None if eager raises."""
        return _unless_failed(self._run(seed))

    def reference(self) -> Results | None:
        """Run in double precision, else half types in single. None if neither works or fits in memory.

        A graph that draws random numbers replays the numbers of the last `observed` run, and is not run without them.
        """
        if self.drew and not self._draws:
            return None  # other numbers would be drawn than in the first run
        for width in (DOUBLE, SINGLE):
            if width is SINGLE and (self.drew or not narrow_dtypes(self._graph, self._make_inputs(), SINGLE)):
                continue
            if not self._is_too_large(width):
                results = self._wide(width)
                if results.error is None:
                    return results
        return None

    def _run(self, seed: int = 0, steps: float = 0.0, within: Any = contextlib.nullcontext) -> Results:
        self._count += 1
        inputs = self._make_inputs()
        if steps:
            move_inputs(inputs, steps, seed=self._count, but=exactly_read(self._graph))
        module = self._build(self._graph)
        return observe(module.forward, inputs, backward=self._gradients, seed=seed, start=self.start, within=within)

    def _wide(self, width: Width) -> Results:
        self._count += 1
        module = self._build(widened(self._graph, width))
        widen_module(module, width)
        within = functools.partial(unsettled.GivingDraws, self._draws) if self.drew else contextlib.nullcontext
        inputs = self._make_inputs()
        lazy = [i for i, value in enumerate(inputs) if self._widens_lazily and can_wait(value, width)]
        call = WidenedAsTaken(module, width, lazy).run if lazy else module.forward
        with default_dtype(width.default):
            inputs = widen_inputs(inputs, width, lazy)
            return observe(call, inputs, backward=self._gradients, within=within)

    @property
    def _gradients(self) -> BackwardPass | None:
        return BackwardPass(self.tangents) if self._backward else None

    @property
    def _widens_lazily(self) -> bool:
        return not self._backward and not any(map(is_in_place, self._graph.nodes))

    def _is_too_large(self, width: Width) -> bool:
        if not self._backward:
            return False
        numbers = [value for value in self._make_inputs() if is_float(value)]
        return sum(v.numel() * width.of(v.dtype).itemsize * (1 + v.requires_grad) for v in numbers) > _MAX_WIDE_BYTES


def can_wait(value: Any, width: Width) -> bool:
    """Whether an input may stay narrow until first read: widening must change its dtype but not its strides."""
    if not is_float(value) or value.layout is not torch.strided:
        return False
    return width.of(value.dtype) is not value.dtype and flat(value).numel() == value.numel()


class WidenedAsTaken(torch.fx.Interpreter):
    """Run a widened graph that never holds all inputs wide: a model's weights already take their memory twice, in the
    script and in the store of inputs.

    The graph has no in-place ops, and no gradient is computed. The inputs at the positions `waiting` are narrow. Every
    op gets new wide copies of its narrow inputs. A copy to which the op has written takes the input's place.
    """

    def __init__(self, module: torch.fx.GraphModule, width: Width, waiting: Sequence[int]) -> None:
        super().__init__(module)
        placeholders = list(module.graph.find_nodes(op="placeholder"))
        self._width, self._waiting = width, {placeholders[i] for i in waiting}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node with its narrow inputs widened."""
        narrow = {node: self.env[node] for node in n.all_input_nodes if node in self._waiting}
        for node, value in narrow.items():
            self.env[node] = value.detach().to(self._width.of(value.dtype))
        result = super().run_node(n)
        for node, value in narrow.items():
            if _is_written(self.env[node], value):
                self._waiting.discard(node)
            else:
                self.env[node] = value
        return result


def _is_written(wide: torch.Tensor, narrow: torch.Tensor) -> bool:
    if wide.is_inference():  # has no version counter
        return not are_identical(wide, narrow.detach().to(wide.dtype))
    return wide._version > 0


def exactly_read(graph: Graph) -> frozenset[int]:
    """Return the positions of the inputs that only steps read, with no operand that an op has rounded.

    The compiled code has these operands bit for bit. So an element on the other side of a jump is no rounding error.
    """
    if any(map(is_in_place, graph.ops)):
        return frozenset()  # a view of an input may be written to
    unrounded = {node.name for node in graph.nodes if node.op in ("placeholder", "get_attr")}
    for node in graph.ops:
        if node.short_target in _MOVES and unrounded.issuperset(node.refs()):
            unrounded.add(node.name)
    exact: set[str] = set()  # the moves and inputs that steps alone read, and the steps
    for node in reversed(graph.nodes):
        is_step = _is_step(node) and unrounded.issuperset(node.refs())
        if is_step or (node.name in unrounded and exact.issuperset(graph.users[node.name])):
            exact.add(node.name)
    return frozenset(i for i, node in enumerate(graph.placeholders) if node.name in exact)


def _is_step(node: Node) -> bool:
    if node.short_target == "round":
        return not node.kwargs and len(node.args) == 1  # with `decimals` it multiplies
    if node.short_target in _DIVISIONS:
        return node.kwargs.get("rounding_mode") is not None
    return node.short_target in _STEPS and node.is_op


@dataclass(frozen=True)
class Width:
    """Mappings from dtypes and conversion methods to wider ones, by name, and a default dtype."""

    dtypes: dict[str, str]
    methods: dict[str, str]
    default: torch.dtype | None

    def of(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype that replaces `dtype`."""
        name = str(dtype).removeprefix("torch.")
        return getattr(torch, self.dtypes.get(name, name))  # type: ignore[no-any-return]


# Dtypes of at most 8 bits stay: the graph means to round to them.
DOUBLE = Width(
    {
        **dict.fromkeys(("float32", "float16", "bfloat16"), "float64"),
        **dict.fromkeys(("complex64", "complex32"), "complex128"),
    },
    {**dict.fromkeys(("float", "half", "bfloat16"), "double"), **dict.fromkeys(("cfloat", "chalf"), "cdouble")},
    torch.float64,
)
SINGLE = Width(
    {"float16": "float32", "bfloat16": "float32", "complex32": "complex64"},
    {"half": "float", "bfloat16": "float", "chalf": "cfloat"},
    None,
)
_MAX_WHOLE_BYTES = 2**24  # of a storage that is widened whole, not only the elements of its inputs
_BIT_VIEWS = ("view", "view_dtype", "torch.Tensor.view", "torch.ops.aten.view.dtype")


def _mapped(value: Any, width: Width) -> Any:
    def wide(leaf: Any) -> Any:
        is_dtype = isinstance(leaf, Constant) and leaf.kind == "dtype"
        return Constant("dtype", width.dtypes.get(leaf.name, leaf.name)) if is_dtype else leaf

    return map_leaves(value, wide)


def _widened_node(node: Node, width: Width) -> Node:
    # Autocast leaves float64 alone anyway. A view of bits needs the dtype that it names.
    if node.target == ENTER_AUTOCAST or node.target in _BIT_VIEWS:
        return node
    prefix, _, last = node.target.rpartition(".")
    target = node.target
    if last in width.methods and (node.op == "call_method" or prefix == "torch.Tensor"):
        target = ".".join(filter(None, (prefix, width.methods[last])))
    return replace(node, target=target, args=_mapped(node.args, width), kwargs=_mapped(node.kwargs, width))


def _widened_module(module: Module, width: Width) -> Module:
    return replace(
        module,
        plain={key: _mapped(value, width) for key, value in module.plain.items()},
        children={key: _widened_module(child, width) for key, child in module.children.items()},
        graph=None if module.graph is None else widened(module.graph, width),
    )


def widened(graph: Graph, width: Width) -> Graph:
    """Return the graph with its dtypes and conversion methods mapped by `width`."""
    return Graph(
        tuple(_widened_node(node, width) for node in graph.nodes),
        graph.attributes,
        {key: _widened_module(module, width) for key, module in graph.modules.items()},
    )


def widen_module(module: torch.nn.Module, width: Width) -> None:
    """Replace the module's parameters and buffers by wide ones; the original tensors do not change."""
    for submodule in module.modules():
        for name, parameter in list(submodule.named_parameters(recurse=False)):
            wide = parameter.detach().to(width.of(parameter.dtype))
            setattr(submodule, name, torch.nn.Parameter(wide, requires_grad=parameter.requires_grad))
        for name, buffer in list(submodule.named_buffers(recurse=False)):
            setattr(submodule, name, buffer.to(width.of(buffer.dtype)))


def _with_grad_of(original: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
    if not original.requires_grad:
        return wide
    wide = wide.detach().requires_grad_(True)
    return wide if original.is_leaf else wide.clone()


def widen_inputs(values: Sequence[Any], width: Width, but: Collection[int] = ()) -> list[Any]:
    """Return wide inputs, except at the positions `but`. Strides and shared storages are kept.

    If `values` is a list, its items are replaced by None on the way, to release memory.
    """
    stretches: dict[object, tuple[torch.Tensor, int]] = {}  # of a storage: the wide part in use, and its start
    shared: dict[object, list[torch.Tensor]] = {}
    for i, value in enumerate(values):
        if i not in but and is_float(value):
            shared.setdefault((graphs.storage_key(value), value.dtype), []).append(value.detach())
    for key, members in shared.items():
        start = min(int(m.storage_offset()) for m in members)
        whole = max(int(m.storage_offset()) + flat(m).numel() for m in members) - start
        size = members[0].untyped_storage().nbytes()
        if size <= _MAX_WHOLE_BYTES:  # an op may read beyond its input
            start, whole = 0, size // members[0].element_size()
        stretch = members[0].as_strided((whole,), (1,), start)
        stretches[key] = (stretch.to(width.of(stretch.dtype)), start)
    del shared
    inputs: list[Any] = []
    for i, value in enumerate(values):
        if i not in but and is_float(value):
            stretch, start = stretches[graphs.storage_key(value), value.dtype]
            wide = stretch.as_strided(value.shape, value.stride(), value.storage_offset() - start)
            inputs.append(_with_grad_of(value, wide))
        else:
            inputs.append(value)
        if isinstance(values, list):
            values[i] = None
    return inputs


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Set torch's default dtype inside the context; None changes nothing."""
    before = torch.get_default_dtype()
    try:
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)


def narrow_dtypes(graph: Graph, values: Sequence[Any], width: Width) -> bool:
    """Whether `width` changes any of the inputs or the graph."""
    changes_inputs = any(isinstance(v, torch.Tensor) and width.of(v.dtype) is not v.dtype for v in values)
    return changes_inputs or widened(graph, width) != graph


def move_inputs(values: Sequence[Any], steps: float, seed: int, but: Collection[int] = ()) -> None:
    """Move each floating point input in place by `steps` times its dtype's eps, up or down at random.

    Inputs at the positions `but` stay.
    """
    for i, value in enumerate(values):
        if i not in but and is_float(value) and value.numel():
            with torch.inference_mode(value.is_inference()), torch.no_grad():  # torch refuses to change it outside
                unsettled.move(flat(value.detach()), steps, 1000 * seed + i)
