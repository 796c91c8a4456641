"""Every private API of torch that this tool touches, and nothing else does.

Each function here has a test in tests/test_torch_private.py that fails loudly when a release of torch
changes what it stands on. Read against torch 2.13.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.backends import registry
from torch._dynamo.output_graph import OutputGraph
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._config_module import ConfigModule

# Dynamo's way of saying "trace again" or "leave this frame alone" from inside a backend; not failures.
_PROTOCOL = (
    dynamo_exc.RestartAnalysis,
    dynamo_exc.SkipFrame,
    dynamo_exc.TensorifyScalarRestartAnalysis,
    dynamo_exc.Unsupported,
    KeyboardInterrupt,
)


def is_failure(error: BaseException) -> bool:
    """Whether an exception out of a backend call is a failure, not part of Dynamo's own protocol."""
    return not isinstance(error, _PROTOCOL)


def backend_error(error: BaseException) -> BaseException:
    """What the backend raised, Dynamo's wrapper taken off."""
    return error.inner_exception if isinstance(error, dynamo_exc.BackendCompilerFailed) else error


def as_hint(value: Any) -> Any:
    """The concrete number behind a symbolic one; other values as they are, None for one without a hint."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node = value.node
        return node.hint if node.has_hint() else None
    return value


def storage_key(tensor: torch.Tensor) -> object | None:
    """Identity of the tensor's storage, fake or real; None where it has no storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


# What torch.compile wraps a backend in, to hand it mode= and options=; untyped in torch.
_INDUCTOR: Callable[..., Any] = torch._TorchCompileInductorWrapper
_OTHERS: Callable[..., Any] = torch._TorchCompileWrapper

# ---- the one place through which Dynamo calls every backend -------------------------------------------

Call = Callable[[], Callable[..., Any]]
Observe = Callable[[Any, torch.fx.GraphModule, Sequence[Any], Call], Callable[..., Any]]


def observe_backend_calls(observe: Observe) -> None:
    """From now on `observe(compiler_fn, graph_module, example_inputs, call)` stands around every backend
    call of this process; it must call `call()` and give back what that gives, or a wrapper of it."""
    original = OutputGraph.call_user_compiler

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return observe(self.compiler_fn, gm, example_inputs, lambda: original(self, gm, example_inputs))

    OutputGraph.call_user_compiler = call_user_compiler  # type: ignore[method-assign]
    wrapper = torch._TorchCompileInductorWrapper
    make: Callable[..., None] = wrapper.__init__

    def __init__(self: Any, mode: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        make(self, mode, options, *args, **kwargs)
        self.minify_asked = (mode, dict(options) if options else None)

    wrapper.__init__ = __init__  # type: ignore[method-assign]


@dataclass(frozen=True)
class AskedBackend:
    """What torch.compile was asked for: the callable, and the mode, options and dynamic given with it.

    Inductor is known to torch.compile by its name alone: `function` is None then."""

    function: Any
    name: str
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None


def asked_backend(compiler_fn: Any) -> AskedBackend:
    """Takes Dynamo's wrappers off a compiler function."""
    while hasattr(compiler_fn, "_torchdynamo_orig_backend"):
        compiler_fn = compiler_fn._torchdynamo_orig_backend
    if isinstance(compiler_fn, torch._TorchCompileInductorWrapper):
        mode, options = getattr(compiler_fn, "minify_asked", (None, compiler_fn.config or None))
        return AskedBackend(None, compiler_fn.compiler_name, mode, options, compiler_fn.dynamic)
    if isinstance(compiler_fn, torch._TorchCompileWrapper):
        given = compiler_fn.kwargs
        return AskedBackend(
            compiler_fn.compiler_fn,
            compiler_fn.compiler_name,
            given.get("mode"),
            given.get("options"),
            compiler_fn.dynamic,
        )
    return AskedBackend(compiler_fn, getattr(compiler_fn, "__name__", type(compiler_fn).__name__))


def compiler_for(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:
    """The callable `(graph_module, example_inputs) -> compiled` that torch.compile would hand to Dynamo."""
    if backend == "inductor":
        return _INDUCTOR(mode, options, dynamic)
    return _OTHERS(backend, mode, options, dynamic)


def aot_autograd_arguments(backend: Any) -> dict[str, Any] | None:
    """The keyword arguments that `aot_autograd(...)` was called with, if this is what it gave."""
    module = sys.modules.get("torch._dynamo.backends.common")
    if module is not None and isinstance(backend, module.AotAutograd):
        return dict(backend.kwargs)
    return None


# ---- the registry of backends -------------------------------------------------------------------------


Stack = tuple[tuple[str, str], ...]  # (module, function) of each frame, innermost first


def _stack() -> Stack:
    found = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        found.append((frame.f_globals.get("__name__") or "", frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


class _Registrations(dict[str, Any]):
    """The registry's table, noting from where each backend was put into it."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.stacks: dict[str, Stack] = {}

    def __setitem__(self, name: str, function: Any) -> None:
        self.stacks[name] = _stack()
        super().__setitem__(name, function)


def note_registrations() -> None:
    """From now on it is remembered which code registered which backend, and which library of operators."""
    if isinstance(registry._COMPILER_FNS, _Registrations):
        return
    registry._COMPILER_FNS = _Registrations(registry._COMPILER_FNS)
    make: Callable[..., None] = torch.library.Library.__init__

    def __init__(self: Any, ns: str, *args: Any, **kwargs: Any) -> None:
        _libraries.setdefault(ns, _stack())
        make(self, ns, *args, **kwargs)

    torch.library.Library.__init__ = __init__  # type: ignore[method-assign]


_libraries: dict[str, Stack] = {}


def library_stack(namespace: str) -> Stack:
    """The frames that first made a library of this namespace (`torch.ops.<namespace>`); empty if unknown."""
    return _libraries.get(namespace, ())


def registration_stack(name: str) -> Stack:
    """The frames that registered the backend; empty if unknown."""
    table = registry._COMPILER_FNS
    return table.stacks.get(name, ()) if isinstance(table, _Registrations) else ()


def registered_names(function: Any) -> list[str]:
    """All names under which this callable is registered."""
    return [name for name, known in registry._COMPILER_FNS.items() if known is function]


@functools.cache
def entry_point_of(name: str) -> EntryPoint | None:
    """The entry point that provides this backend, if one does. Torch forgets it once it is loaded."""
    points = entry_points(group="torch_dynamo_backends", name=name)
    return registry._BACKENDS.get(name) or next(iter(points), None)


def backend_table() -> list[tuple[str, Any, EntryPoint | None]]:
    """(name, callable or None if not loaded, entry point or None) of every backend torch can find."""
    registry.list_backends(exclude_tags=())
    return [(n, registry._COMPILER_FNS.get(n), entry_point_of(n)) for n in sorted(registry._BACKENDS)]


# ---- configuration ------------------------------------------------------------------------------------


def config_values() -> dict[tuple[str, str], Any]:
    """Every value of every configuration module loaded, torch's and third parties'."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are read
        for name, module in sorted(sys.modules.items()):
            for key in module._config if isinstance(module, ConfigModule) else ():
                with contextlib.suppress(AttributeError):  # an alias of a module that is not there
                    value = getattr(module, key)
                    found[name, key] = value.copy() if isinstance(value, (dict, list, set)) else value
    return found


def is_default_config(module: str, key: str) -> bool:
    """Whether a configuration value is what its module set it to when it was loaded."""
    return bool(sys.modules[module]._is_default(key))


def set_config(module: str, key: str, value: Any) -> None:
    """Sets one configuration value; raises ImportError or AttributeError where this torch has none such."""
    setattr(importlib.import_module(module), key, value)


# ---- what Dynamo has around a backend call ------------------------------------------------------------


@contextlib.contextmanager
def as_dynamo_calls(fake_mode: FakeTensorMode) -> Iterator[None]:
    """The tracing context in which Dynamo calls a backend."""
    with tracing(TracingContext(fake_mode)):
        yield


def new_fake_mode() -> FakeTensorMode:
    """A fake mode as Dynamo makes one: its own shape environment, non-fake inputs refused."""
    return FakeTensorMode(shape_env=ShapeEnv(), export=False)


def fake_tensor(
    mode: FakeTensorMode, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: str
) -> torch.Tensor:
    """A fake tensor made directly: the mode's own dispatch costs ten times as much."""
    empty = torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device="meta")
    return FakeTensor(mode, empty, torch.device(device))


def graph_module(root: torch.nn.Module, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    """A GraphModule as Dynamo makes it: its code is generated when somebody asks for it."""
    with _use_lazy_graph_module(torch._dynamo.config.use_lazy_graph_module):
        return _make_graph_module(root, graph)


def tame_inductor() -> None:
    """Makes inductor compile in this process and answer from no cache of whole graphs.

    Its worker processes would outlive a probe, and a cached graph would answer one candidate with the
    compilation of another. Compiled C++ is kept by the hash of its source, which is sound.
    """
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    inductor_config.compile_threads = 1
    inductor_config.fx_graph_cache = False
    inductor_config.fx_graph_remote_cache = False
    functorch_config.enable_autograd_cache = False


def inductor_headers() -> Path | None:
    """The folder with inductor's precompiled C++ headers, which take ten seconds to make; None if there
    are none yet. Inductor looks for them below the temporary folder, whatever its cache folder is."""
    found = inductor_folder()
    return found if (found / "precompiled_headers").is_dir() else None


@functools.cache
def inductor_folder() -> Path:
    """Where inductor keeps things when not told otherwise: below the temporary folder, as that was when
    this was first asked."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(default_cache_dir())
