"""The observing backend: writes down everything that a backend can see when it is called, and runs the graph eagerly.

A tool that calls a backend again, outside the script, compares the records: each field that differs is something on
which a backend may depend.

    torch.compile(model, backend="observing", options={"to": "/tmp/records.jsonl", "refuses": "tanh"})

`to` is the file that gets one JSON object a call, of the backend ("compile") and of the compiled function ("run").
`refuses` is the name of an op that ends the compilation with an `Observed` error, after the record was written.
"""

import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend
from torch._guards import CompileContext, TracingContext
from torch._subclasses.fake_tensor import FakeTensor

from minifier_backends.graphs import op_names

Record = dict[str, Any]
MAX_ALIGNMENT_BYTES = 64
_OWN_FILE = __file__


class Observed(RuntimeError):
    """The graph has the op that the observing backend was told to refuse."""


@register_backend(tags=("debug",))
def observing(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, str] | None = None
) -> Callable[..., Any]:
    """Writes a record of the graph, its inputs and the process; returns a function that writes one of its inputs."""
    given = dict(options or {})
    to, refuses = Path(given.pop("to")), given.pop("refuses", "")
    if given:
        raise TypeError(f"observing has no option {next(iter(given))!r}; it takes to and refuses")
    _append(to, {"call": "compile", **observe(gm, example_inputs)})
    if refuses in op_names(gm):
        raise Observed(f"refuses {refuses}")

    def run(*args: Any) -> Any:
        _append(to, {"call": "run", **observe_inputs(args), **observe_process()})
        return gm.forward(*args)

    return run


def _append(to: Path, record: Record) -> None:
    with to.open("a") as file:
        file.write(json.dumps(record) + "\n")


def observe(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Record:
    """Everything that a backend sees, as flat fields: `node.tanh.meta`, `input.0.alignment`, `process.argv`."""
    return {
        **observe_module(gm),
        **observe_nodes(gm),
        **observe_inputs(example_inputs),
        **observe_context(example_inputs),
        **observe_process(),
    }


def observe_module(gm: fx.GraphModule) -> Record:
    """The graph module itself: its class, attributes, submodules and tensors."""
    return {
        "module.class": _path(type(gm)),
        "module.bases": [_path(base) for base in type(gm).__mro__],
        "module.attributes": {name: _path(type(value)) for name, value in sorted(vars(gm).items())},
        "module.meta": {name: _path(type(value)) for name, value in sorted(gm.meta.items())},
        "module.children": {name: _path(type(child)) for name, child in gm.named_modules() if name},
        "module.tensors": {
            name: describe_tensor(tensor) for name, tensor in (*gm.named_parameters(), *gm.named_buffers())
        },
        "module.training": gm.training,
        "module.is_first_placeholder": next(iter(gm.graph.nodes)).op,
        "module.graph": {name: _path(type(value)) for name, value in sorted(vars(gm.graph).items())},
        "module.codegen": _path(type(gm.graph._codegen)),
    }


def observe_nodes(gm: fx.GraphModule) -> Record:
    """The nodes in their order, and the metadata of each."""
    fields: Record = {"nodes": [[node.op, node.name, _target(node.target)] for node in gm.graph.nodes]}
    for node in gm.graph.nodes:
        at = f"node.{node.name}"
        fields[f"{at}.args"] = str((node.args, node.kwargs))
        fields[f"{at}.type"] = str(node.type)
        fields[f"{at}.source"] = getattr(getattr(node, "_dynamo_source", None), "name", None)
        fields[f"{at}.meta"] = sorted(node.meta)
        fields[f"{at}.trace"] = (node.meta.get("stack_trace") or "").strip().splitlines()
        fields[f"{at}.functions"] = [[name, _target(what)] for name, what in node.meta.get("source_fn_stack", ())]
        stack = node.meta.get("nn_module_stack", {})
        fields[f"{at}.modules"] = [[key, path, _target(kind)] for key, (path, kind) in stack.items()]
        fields[f"{at}.example"] = _example(node.meta.get("example_value"))
        tensor_dict = node.meta.get("tensor_dict")
        fields[f"{at}.tensor_dict"] = tensor_dict if tensor_dict is None else sorted(tensor_dict)
        argument = node.meta.get("grapharg")
        if argument is not None:
            fields[f"{at}.argument"] = {
                "class": _path(type(argument)),
                "source": argument.source.name,
                "example": _example(argument.example),
                "fake": _example(argument.fake_tensor),
                "as_tensor": argument.pass_arg_as_tensor,
                "is_tensor": argument.is_tensor,
            }
            fields[f"{at}.argument_is_example"] = argument.fake_tensor is node.meta.get("example_value")
    return fields


def observe_inputs(values: Sequence[Any]) -> Record:
    """The inputs: what they are, how they lie in memory."""
    fields: Record = {"inputs": len(values), "inputs.class": _path(type(values))}
    for number, value in enumerate(values):
        at = f"input.{number}"
        fields[f"{at}.value"] = _example(value)
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            fields[f"{at}.alignment"] = alignment(value)
            fields[f"{at}.storage_bytes"] = value.untyped_storage().nbytes()
            fields[f"{at}.version"] = None if value.is_inference() else value._version
            fields[f"{at}.attributes"] = sorted(vars(value))
            fields[f"{at}.resizable"] = value.untyped_storage().resizable()
            fields[f"{at}.shared_memory"] = value.is_shared()
    tensors = [value for value in values if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)]
    fields["inputs.same_storage"] = [
        [first, second]
        for first, one in enumerate(tensors)
        for second, other in enumerate(tensors[:first])
        if one.numel() and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    ]
    return fields


def alignment(tensor: torch.Tensor) -> int:
    """The largest power of two, at most 64, that divides the address of the tensor's first element."""
    address = tensor.data_ptr() or MAX_ALIGNMENT_BYTES
    return min(MAX_ALIGNMENT_BYTES, address & -address)


def observe_context(values: Sequence[Any]) -> Record:
    """The tracing context, its fake mode and its shape environment."""
    context = TracingContext.try_get()
    compile_context = CompileContext.try_get()
    fields: Record = {
        "context": context is not None,
        "context.compile_id": str(compile_context.compile_id) if compile_context is not None else None,
    }
    if context is None:
        return fields
    mode = context.fake_mode
    fields["context.attributes"] = {name: _path(type(value)) for name, value in sorted(vars(context).items())}
    fields["context.tensors"] = [
        isinstance(value, torch.Tensor) and value in context.tensor_to_context for value in values
    ]
    fields["context.params_flat"] = context.params_flat is not None
    fields["context.global_state"] = sorted(context.global_context.global_state)
    fields["fakes"] = {
        name: value for name, value in sorted(vars(mode).items()) if isinstance(value, (bool, str, int, type(None)))
    }
    environment = mode.shape_env if mode is not None else None
    if environment is not None:
        fields["symbols"] = [str(symbol) for symbol in environment.backed_var_to_val]
        fields["symbols.ranges"] = {str(symbol): str(bounds) for symbol, bounds in environment.var_to_range.items()}
        fields["symbols.sources"] = {
            str(symbol): [source.name for source in sources] for symbol, sources in environment.var_to_sources.items()
        }
        fields["symbols.guards"] = [str(guard.expr) for guard in environment.guards]
        fields["symbols.tracked"] = len(environment.tracked_fakes or ())
        fields["symbols.settings"] = repr(environment.settings)
    return fields


def observe_process() -> Record:
    """The process around the call: arguments, environment, threads, modes, limits."""
    main = sys.modules["__main__"]
    return {
        "process.argv": list(sys.argv),
        "process.path": list(sys.path),
        "process.flags": str(sys.flags),
        "process.folder": os.getcwd(),
        "process.main": sorted(name for name in vars(main) if name.startswith("__")),
        "process.main_file": getattr(main, "__file__", None),
        "process.main_names": sorted(name for name in vars(main) if not name.startswith("__")),
        "process.environment": dict(sorted(os.environ.items())),
        "process.modules": sorted({name.partition(".")[0] for name in sys.modules}),
        "process.threads": [_path(type(thread)) for thread in threading.enumerate()],
        "process.thread_count": len(os.listdir("/proc/self/task")),
        "process.torch_threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "process.is_main_thread": threading.current_thread() is threading.main_thread(),
        "process.recursion_limit": sys.getrecursionlimit(),
        "process.stack_depth": len(inspect.stack(0)),
        "process.stack": [frame.filename for frame in inspect.stack(0) if frame.filename != _OWN_FILE],
        "process.standard_files": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "modes.grad": torch.is_grad_enabled(),
        "modes.inference": torch.is_inference_mode_enabled(),
        "modes.autocast": torch.is_autocast_enabled("cpu"),
        "modes.deterministic": torch.are_deterministic_algorithms_enabled(),
        "modes.dtype": str(torch.get_default_dtype()),
        "modes.device": str(torch.get_default_device()),
        "modes.functions": torch._C._len_torch_function_stack(),
        "modes.dispatch": torch._C._len_torch_dispatch_stack(),
        "modes.seed": torch.initial_seed(),
        "modes.compiling": torch.compiler.is_compiling(),
        "modes.dynamo_compiling": torch.compiler.is_dynamo_compiling(),
    }


def describe_tensor(value: torch.Tensor) -> list[Any]:
    """The class and layout of a tensor, real or fake."""
    strided = value.layout == torch.strided
    return [
        _path(type(value)),
        str(value.dtype),
        str(value.device),
        [str(size) for size in value.shape],
        [str(step) for step in value.stride()] if strided else None,
        str(value.storage_offset()) if strided else None,
        f"requires_grad={value.requires_grad}",
        f"is_leaf={value.is_leaf}",
        f"grad_fn={type(value.grad_fn).__name__}",
        f"is_view={value._is_view()}",
        f"is_inference={value.is_inference()}",
    ]


def _example(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if isinstance(value, (tuple, list)):
        return [_path(type(value)), *map(_example, value)]
    return [_path(type(value)), str(value) if isinstance(value, (bool, int, float, str, torch.SymInt)) else None]


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _target(target: Any) -> str:
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    return f"{module}.{name}" if name else str(target)
