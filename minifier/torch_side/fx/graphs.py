"""A Graph from a torch.fx.GraphModule, and a new one like Dynamo's from a Graph."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any

import torch

from minifier.data.case.graph import NOTHING, Graph, Module, Node, Ref
from minifier.data.case.literals import SCRIPT, imported_paths
from minifier.data.case.values import Imported, Opaque, Scalar, Sequence_, TensorMeta, Value
from minifier.data.torch_names import LAUNCH
from minifier.errors import CannotSave
from minifier.torch_side.fx.arguments import meta_of, path_of, read, resolve, write
from minifier.torch_side.fx.script_objects import cell_of, in_module, in_script
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private import graphs, inductor, registrations

_FLAGS = ("inplace", "training", "use_input_stats")  # the latter two change running statistics
_NOT_RENAMED: Mapping[str, str] = MappingProxyType({})
Fake = Callable[[TensorMeta], torch.Tensor]
Example = Callable[[Node], Any]


def build_module(spec: Module, tensors: StoredTensors, example: Example | None = None) -> torch.nn.Module:
    """Return a module with its class, attributes and tensors, without calling its constructor.

    example: as in `build_graph`, for the nodes of nested graphs.
    """
    if spec.graph is not None:
        return build_graph(spec.graph, tensors, example)
    kind = resolve(spec.type)
    module: torch.nn.Module = kind.__new__(kind)
    torch.nn.Module.__init__(module)
    for name, value in spec.plain.items():
        object.__setattr__(module, name, write(value))
    for name, key in spec.parameters.items():
        module.register_parameter(name, torch.nn.Parameter(tensors.get(key), requires_grad=False))
    for name, key in spec.buffers.items():
        module.register_buffer(name, tensors.get(key))
    for name, child in spec.children.items():
        module.add_module(name, build_module(child, tensors, example))
    return module.train(spec.training)


def example_of(value: Value, fake: Fake) -> Any:
    """Return the `example_value` that Dynamo would give the node, or None."""
    if isinstance(value, TensorMeta):
        return fake(value)
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, Sequence_):
        return tuple(example_of(item, fake) for item in value.items)
    return None


def _power(base: Any, exponent: Any) -> Any:
    """Compute (-2) ** x. The code that torch generates for a graph's operator.pow is -2 ** x: minus a power of 2."""
    return base**exponent


def build_graph(
    graph: Graph, tensors: StoredTensors, example: Example | None = None, names: Mapping[str, str] = _NOT_RENAMED
) -> torch.fx.GraphModule:
    """Return a new GraphModule.

    example: returns a node's `example_value`, as Dynamo gives it; None for a graph that runs eagerly.
    names: new names of inputs.
    """
    root = torch.nn.Module()
    metas = {node.target: node.value for node in graph.nodes if node.op == "get_attr"}
    for target, tensor_key in graph.attributes.items():
        meta = metas.get(target)
        _set(root, target, tensors.get(tensor_key).to(meta.device if isinstance(meta, TensorMeta) else "cpu"))
    for target, spec in graph.modules.items():
        _set(root, target, build_module(spec, tensors, example))
    built = torch.fx.Graph()
    env: dict[str, torch.fx.Node] = {}
    for node in graph.nodes:
        args, kwargs = write(node.args, env.__getitem__), write(node.kwargs, env.__getitem__)
        if node.op == "output":
            args = _flat_output(graph, node.args, args)
        if node.target == LAUNCH:
            kwargs = launch_in_graph(kwargs)
        callee: Any = resolve(node.target) if node.op == "call_function" else node.target
        if example is None and callee is operator.pow and isinstance(args[0], (int, float)):
            callee = _power if math.copysign(1, args[0]) < 0 else callee
        name = names.get(node.name, node.name)
        callee = f"L{name[1:]}" if name != node.name else callee
        fx_node = built.create_node(node.op, callee, name=name)
        if args:  # set here, because create_node() would visit each leaf
            fx_node.args = args
        if kwargs:
            fx_node.kwargs = kwargs
        env[node.name] = fx_node
        if example is not None and node.op != "output":
            value = example(node)
            if value is not None:
                fx_node.meta["example_value"] = value
            if node.source:  # like Dynamo's, but without the private path of the file
                fx_node.meta["stack_trace"] = f'  File "<script>", line 1, in forward\n    {node.source}\n'
            if node.modules:
                fx_node.meta["nn_module_stack"] = {key: (path, _class_of(kind)) for key, path, kind in node.modules}
            if node.is_op:
                fx_node.meta["source_fn_stack"] = [(node.origin or name, _function(node, fx_node))]
    return graphs.graph_module(root, built)


def _flat_output(graph: Graph, refs: Any, args: Any) -> Any:
    """Return the output node's arguments, with the items in the place of a returned sequence.

    Dynamo returns the items of a sequence, picked by ops: backends refuse sequences as outputs.
    """
    returned = refs[0] if refs else ()
    if not isinstance(returned, (tuple, list)):
        return args
    values = {ref: graph.node(ref.name).value for ref in returned if isinstance(ref, Ref)}
    if not any(isinstance(value, Sequence_) for value in values.values()):
        return args
    leaves = [_items(made, values.get(ref)) for ref, made in zip(returned, args[0], strict=True)]
    return (tuple(leaf for each in leaves for leaf in each),)


def _items(node: Any, value: Value | None) -> list[Any]:
    """Return the node, or, of a sequence, new nodes that pick its tensors and numbers."""
    if not isinstance(value, Sequence_):
        return [node]
    picked: list[Any] = []
    for number, item in enumerate(value.items):
        if not isinstance(item, Opaque):
            pick = node.graph.call_function(operator.getitem, (node, number))
            if "example_value" in node.meta:
                pick.meta["example_value"] = node.meta["example_value"][number]
            picked += _items(pick, item)
    return picked


def _function(node: Node, fx_node: torch.fx.Node) -> Any:
    """Return the function that Dynamo notes as the node's source.

    For an op within a module of torch, and for a call of a module, this is the module's class.
    """
    if node.modules:
        innermost = _class_of(node.modules[-1][2])
        if node.op == "call_module" or _is_of_torch(innermost.__module__):
            return innermost
    return fx_node.target


@functools.cache
def _class_of(name: str) -> type:
    """Return the class of a module around an op.

    If this process has not imported the class, for example a class of the script, a new class has the same name.
    """
    module, _, qualname = name.partition(":")
    try:
        kind: Any = functools.reduce(getattr, qualname.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        kind = None
    if isinstance(kind, type):
        return kind
    return type(qualname.rpartition(".")[2], (torch.nn.Module,), {"__module__": module, "__qualname__": qualname})


def _is_of_torch(module: str) -> bool:
    is_container = module.startswith("torch.nn.modules.container")
    return module.startswith(("torch.nn.modules", "torch.ao.")) and not is_container


def _set(root: torch.nn.Module, target: str, value: torch.Tensor | torch.nn.Module) -> None:
    *path, last = target.split(".")
    for name in path:
        if not hasattr(root, name):
            root.add_module(name, torch.nn.Module())
        root = getattr(root, name)
    if isinstance(value, torch.nn.Module):
        root.add_module(last, value)
    else:
        root.register_buffer(last, value)


def import_targets(graph: Graph) -> None:
    """Import the functions that the graph calls, once for all forked children. Raises as import does."""
    importlib.invalidate_caches()
    for node in graph.nodes:
        if node.op == "call_function":
            for path in [node.target, *imported_paths((node.args, node.kwargs))]:
                resolve(path)


def _source_line(node: torch.fx.Node) -> str:
    """Return the user's line for the node: the code of its innermost frame, without the path."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    code = [line for line in lines if line.strip("^~ ") and not line.startswith('File "')]
    return code[-1] if code else ""


_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in ', re.MULTILINE)
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def _place(node: torch.fx.Node) -> str:
    """Return the place of the innermost frame outside torch: `model.py:14`, or `cell 3, line 14` of a notebook."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    own = [frame for frame in frames if not frame["file"].startswith(_TORCH)] or frames
    if not own:
        return ""
    cell = cell_of(own[-1]["file"])
    return f"cell {cell}, line {own[-1]['line']}" if cell else f"{os.path.basename(own[-1]['file'])}:{own[-1]['line']}"


def _origin(node: torch.fx.Node) -> str:
    """Return Dynamo's first name for the op, or for the forward op of a backward op.

    AOTAutograd's nodes keep this name; Dynamo's own graph may rename the op after a variable."""
    stack = node.meta.get("fwd_source_fn_stack") or node.meta.get("source_fn_stack")
    return str(stack[-1][0]) if stack else ""


_HELD = re.compile(r"\.?_modules\['([^']*)'\]")  # how torch 2.8 has `.layers` in a path


def _modules(node: torch.fx.Node) -> tuple[tuple[str, str, str], ...]:
    """Return the modules around the op as key, path in the model, and `module:qualname` of the class."""
    stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    found = []
    for key, (path, kind) in stack.items():
        name = f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) else str(kind)
        found.append((str(key), _HELD.sub(r".\1", path).removeprefix("."), name))
    return tuple(found)


def _plain_attributes(module: torch.nn.Module, where: str) -> dict[str, Any]:
    registered = {**module._parameters, **module._buffers, **module._modules}
    attributes: dict[str, Any] = {name: None for name, value in registered.items() if value is None}
    for name, value in vars(module).items():
        if name.startswith("_") or name == "training":
            continue
        try:
            attributes[name] = read(value)
        except CannotSave as error:
            raise CannotSave(f"{where}.{name}: {error}") from None
    return attributes


def read_module(module: torch.nn.Module, where: str, tensors: TensorFile) -> Module:
    """Return a module or nested graph as plain data. Raises CannotSave with the attribute's name."""
    if isinstance(module, torch.fx.GraphModule):
        inner = read_graph(module, tensors, prefix=f"{where}.")
        return Module("torch.fx.GraphModule", graph=inner, training=module.training)
    if module._forward_hooks or module._forward_pre_hooks:
        raise CannotSave(f"the module {where}, which has forward hooks")
    return Module(
        type=path_of(type(module)),
        plain=_plain_attributes(module, where),
        parameters={n: tensors.add(f"{where}.{n}", p) for n, p in module._parameters.items() if p is not None},
        buffers={n: tensors.add(f"{where}.{n}", b) for n, b in module._buffers.items() if b is not None},
        children={n: read_module(c, f"{where}.{n}", tensors) for n, c in module._modules.items() if c is not None},
        training=module.training,
    )


_signature = functools.cache(inspect.signature)


def _changes(node: torch.fx.Node) -> tuple[str, ...]:
    """Return the arguments that the op writes to, by position or name: by the operator's schema, or by the parameters
    of a function, as `inplace`."""
    arguments = registrations.arguments_of(node.target)
    if isinstance(node.target, FunctionType):
        try:
            bound = _signature(node.target).bind(*node.args, **node.kwargs)
        except (TypeError, ValueError):  # it has no signature, or another one than it says
            return ()
        bound.apply_defaults()
        is_in_place, *updates = (bound.arguments.get(flag) is True for flag in _FLAGS)
        arguments = [
            (name, (place == 0 and is_in_place) or (name.startswith("running_") and any(updates)))
            for place, name in enumerate(bound.arguments)
        ]
    written = [str(i) if i < len(node.args) else name for i, (name, is_written) in enumerate(arguments) if is_written]
    return tuple(key for key in written if key.isdecimal() or key in node.kwargs)


def read_graph(module: torch.fx.GraphModule, tensors: TensorFile, prefix: str = "") -> Graph:
    """Return the graph as plain data, and add its tensors to `tensors`.

    Raises CannotSave naming the node and the value without a readable form.
    """
    nodes: list[Node] = []
    attributes: dict[str, str] = {}
    modules: dict[str, Module] = {}
    storages: dict[object, int] = {}
    numbers: dict[str, str] = {}
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else None
        try:
            if target is None:
                target = path_of(node.target)
            elif node.op == "call_module":
                modules[target] = read_module(module.get_submodule(target), prefix + target, tensors)
            elif node.op == "get_attr":
                attribute: Any = functools.reduce(getattr, target.split("."), module)
                if isinstance(attribute, torch.Tensor):
                    attributes[target] = tensors.add(prefix + target, attribute)
                elif isinstance(attribute, torch.nn.Module):
                    modules[target] = read_module(attribute, prefix + target, tensors)
                else:
                    raise CannotSave(f"an attribute of type {type(attribute).__qualname__}")
            args = read(tuple(node.args), numbers)
            if target == LAUNCH:
                kwargs = launch_as_data(node.kwargs, lambda value: read(value, numbers))
            else:
                kwargs = read(dict(node.kwargs), numbers)
        except CannotSave as error:
            called = target or getattr(node.target, "__name__", node.target)
            raise CannotSave(f"node {node.name} of the graph ({node.op} {called}) uses {error}") from None
        example = node.meta.get("example_value", node.meta.get("val"))
        value = NOTHING if example is None else meta_of(example, storages)
        if isinstance(value, Scalar) and value.symbol is not None:
            numbers.setdefault(value.symbol, node.name)
        facts = _source_line(node), _origin(node), _modules(node), _place(node), _changes(node)
        nodes.append(Node(node.name, node.op, target, args, kwargs, value, *facts))
    return Graph(tuple(nodes), attributes, modules)


def _path(kernel: Any) -> Imported:
    """Return the kernel's path in the script, or in the module that defines its function."""
    function = kernel
    while hasattr(function, "fn"):  # within autotuning or heuristics
        function = function.fn
    module = function.__module__
    name = in_script(kernel) if module == SCRIPT else in_module(kernel, module)
    if name is not None:
        return Imported(f"{module}:{name}")
    raise CannotSave(f"the Triton kernel {function.__qualname__}, which no name of {module} leads to")


def _constant(value: Any) -> Any:
    """Return a dtype of Triton as its import path, other values unchanged."""
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ == "dtype":
        name = in_module(value, "triton.language")
        if name is not None:
            return Imported(f"triton.language:{name}")
    return value


def launch_as_data(kwargs: dict[str, Any], read: Any) -> dict[str, Any]:
    """Return the launch as `kernel`, `grid` and the kernel's `arguments`; `read` converts values of the graph.

    Raises CannotSave for a kernel without a name, or a value without source."""
    if kwargs.get("tma_descriptor_metadata"):
        raise CannotSave("a Triton kernel that takes TMA descriptors")
    if unknown := inductor.unknown_arguments(kwargs):
        raise CannotSave(f"a Triton kernel that is launched with {', '.join(unknown)}")
    grids = [tuple(grid) for grid in kwargs["grid"]]
    if any(grid != grids[0] for grid in grids):
        raise CannotSave("a Triton kernel whose grid depends on the configuration that tuning chooses")
    arguments = {name: _constant(value) for name, value in inductor.kernel_arguments(kwargs).items()}
    data = {name: value if isinstance(value, Imported) else read(value) for name, value in arguments.items()}
    return {"kernel": _path(inductor.kernel_of(kwargs)), "grid": read(grids[0]), "arguments": data}


def launch_in_graph(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return Dynamo's arguments of a launch: the inverse of `launch_as_data`, for values of a graph."""
    kernel = kwargs["kernel"]
    grids = [kwargs["grid"]] * max(1, len(getattr(kernel, "configs", ())))
    return inductor.numbered_launch(kernel, kwargs["arguments"], grids)
