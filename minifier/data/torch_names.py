"""The private names of torch that stand in texts, and the releases of torch that this tool knows."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

Release = tuple[int, ...]  # the first two numbers of a version, as (2, 13)

OLDEST_TORCH: Release = (2, 8)  # that works
NEWEST_TORCH: Release = (2, 15)  # that is tested
_BEFORE_A_RELEASE = re.compile(r"\d+(\.\d+)*[.-]?(a|alpha|b|beta|c|rc|dev)[.-]?\d*")


def release_of(version: str) -> Release:
    """Return the release that a version belongs to, or leads to."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def is_before_release(version: str) -> bool:
    """Whether the version is a build ahead of its release: nightly, alpha, beta, release candidate."""
    return _BEFORE_A_RELEASE.match(version) is not None


def torchs_version() -> str:
    """Return the version of the torch that is here, without importing it; "" if that is unknown.

    A torch that was built in place has no metadata; once it is imported, it says its version.
    """
    if (torch := sys.modules.get("torch")) is not None:
        return str(torch.__version__)
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


@functools.cache
def loaded_with_torch() -> frozenset[str]:
    """Return torch's modules that `import torch` loads. The first call has to follow that import at once."""
    return frozenset(name for name in sys.modules if name.partition(".")[0] == "torch")


def why_untested(version: str) -> str:
    """Return why a version of torch counts as not tested; "" for a version of the tested releases."""
    if release_of(version) > NEWEST_TORCH:
        return f"newer than {shown(NEWEST_TORCH)}, the last that was tested"
    return "a build ahead of its release, and only releases were tested" if is_before_release(version) else ""


def shown(release: Release) -> str:
    """Return a release as text: "2.13"."""
    return ".".join(map(str, release))


class NameKind(Enum):
    """How a name is found in its module."""

    MODULE = "the module itself"
    NAME = "an attribute or a configuration value"
    FUNCTION = "a function in the source, perhaps inside another"
    TEXT = "a text in the source"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A name that the releases from `since` to `until` have in one of these modules."""

    kind: NameKind
    modules: tuple[str, ...]
    name: str = ""
    since: Release = OLDEST_TORCH
    until: Release = NEWEST_TORCH


PRIVATE_NAMES: list[PrivateName] = []


def _module(name: str) -> str:
    PRIVATE_NAMES.append(PrivateName(NameKind.MODULE, (name,)))
    return name


def _path(module: str, name: str) -> str:
    PRIVATE_NAMES.append(PrivateName(NameKind.NAME, (module,), name))
    return f"{module}.{name}"


def _last(name: str, *modules: str) -> str:
    """Return the name alone. It is in one of the modules."""
    PRIVATE_NAMES.append(PrivateName(NameKind.NAME, modules, name))
    return name


def _key(module: str, key: str, since: Release = OLDEST_TORCH) -> tuple[str, str]:
    PRIVATE_NAMES.append(PrivateName(NameKind.NAME, (module,), key, since))
    return module, key


def _frame(module: str, function: str, since: Release = OLDEST_TORCH) -> tuple[str, str]:
    """Return the module and the name of a function, as a frame has them."""
    PRIVATE_NAMES.append(PrivateName(NameKind.FUNCTION, (module,), function, since))
    return module, function


def _text(module: str, text: str, since: Release = OLDEST_TORCH, until: Release = NEWEST_TORCH) -> str:
    """Return a text of the module's source: an attribute of objects, a key of a dictionary."""
    PRIVATE_NAMES.append(PrivateName(NameKind.TEXT, (module,), text, since, until))
    return text


# Packages of torch.
_DYNAMO, _INDUCTOR, FUNCTORCH = map(_module, ("torch._dynamo", "torch._inductor", "torch._functorch"))
AOT_AUTOGRAD = _module("torch._functorch._aot_autograd")
BACKENDS_OF_TORCH = (_INDUCTOR, FUNCTORCH, _module("torch._dynamo.backends"), "torch.jit")
CALLERS_OF_BACKENDS = (_module("torch._dynamo.output_graph"), _module("torch._dynamo.eval_frame"))
# Where torch.compile's own exceptions are defined, and the folders of the code that raises any.
_MODULES_OF_ERRORS = (_module("torch._dynamo.exc"), _module("torch._inductor.exc"), FUNCTORCH)
ERRORS_OF_DYNAMO = f"{_MODULES_OF_ERRORS[0]}."
ERRORS_OF_COMPILE = tuple(f"{name}." for name in _MODULES_OF_ERRORS)
FOLDERS_OF_COMPILE = tuple(f"/{name.replace('.', '/')}/" for name in (_DYNAMO, _INDUCTOR, FUNCTORCH, "torch.fx"))
FILE_OF_CALLS = f"/{_module('torch._dynamo.eval_frame').replace('.', '/')}.py"  # of compiled functions; ends the path
COMPILE_FX = _module("torch._inductor.compile_fx")
INDUCTOR_MODULES = (COMPILE_FX, _module("torch._inductor.codegen.cpp"))  # import nearly everything it needs

# Exceptions.
BACKEND_FAILED = _path("torch._dynamo.exc", "BackendCompilerFailed")
OF_DYNAMO = _path("torch._dynamo.exc", "TorchDynamoException")
INVALID_BACKEND = _last("InvalidBackend", "torch._dynamo.exc")

# Frames.
RUNS_BACKWARD = _frame("torch._functorch._aot_autograd.runtime_wrappers", "_backward_impl")
COMPILES_BACKWARD = _frame("torch._functorch._aot_autograd.runtime_wrappers", "get_or_compile", since=(2, 12))
RUNS_COMPILED = _frame("torch._functorch._aot_autograd.utils", "call_func_at_runtime_with_args")
RUNS_ENGINE = _frame("torch.autograd.graph", "_engine_run_backward")
COMPILES_FRAME = _frame("torch._dynamo.convert_frame", "_compile")
COMPILES_GRAPH = _frame("torch._dynamo.output_graph", "_call_user_compiler")

# Higher-order ops.
HIGHER_ORDER = "torch.ops.higher_order."  # prefix of their paths
AUTOGRAD_FUNCTION, COND, REGION, FLEX, LAUNCH, CHECKPOINT, MAP, SCAN, WHILE_LOOP = (
    _path("torch.ops.higher_order", name)
    for name in (
        "autograd_function_apply",
        "cond",
        "invoke_subgraph",
        "flex_attention",
        "triton_kernel_wrapper_mutation",
        "tag_activation_checkpoint",
        "map_impl",
        "scan",
        "while_loop",
    )
)

# Other ops of Dynamo's graphs.
SET_GRAD = _path("torch._C", "_set_grad_enabled")
ENTER_AUTOCAST = _path("torch.amp.autocast_mode", "_enter_autocast")
EXIT_AUTOCAST = _path("torch.amp.autocast_mode", "_exit_autocast")
ENTER_INFERENCE = _path("torch.autograd.grad_mode", "_enter_inference_mode")
EXIT_INFERENCE = _path("torch.autograd.grad_mode", "_exit_inference_mode")
MODULES_OF_TRANSFORMS = (f"{FUNCTORCH}.", f"{_module('torch._C._functorch')}.")
_OF_TRANSFORMS = ("torch._C._functorch", "torch._C._autograd", "torch._C")
BEGIN_LEVEL = {_last(f"_{transform}_increment_nesting", *_OF_TRANSFORMS) for transform in ("vmap", "grad", "jvp")}
END_LEVEL = {_last(f"_{transform}_decrement_nesting", *_OF_TRANSFORMS) for transform in ("vmap", "grad", "jvp")}
LEAVE_LEVEL = {_last(name, *_OF_TRANSFORMS) for name in ("_remove_batch_dim", "_unwrap_for_grad")}
BEGIN_CONTEXT = {_last(name, *_OF_TRANSFORMS) for name in ("_saved_tensors_hooks_disable", "_enter_dual_level")}
END_CONTEXT = {_last(name, *_OF_TRANSFORMS) for name in ("_saved_tensors_hooks_enable", "_exit_dual_level")}

# Of repros.
PUBLIC_MAP, PUBLIC_SCAN = (
    f"torch._higher_order_ops.{name}:{_last(name, f'torch._higher_order_ops.{name}')}" for name in ("map", "scan")
)
AOT_BACKEND = _last("aot_autograd", "torch._dynamo.backends.common")
AOT_BACKEND_IMPORT = f"from torch._dynamo.backends.common import {AOT_BACKEND}"
MARK_DYNAMIC = _path("torch._dynamo", "mark_dynamic")
ZEROS_WITHOUT_MEMORY = _path("torch", "_efficientzerotensor")
COMPILE_PACKAGE = _path("torch._inductor", "aoti_compile_and_package")
LOAD_PACKAGE = _path("torch._inductor", "aoti_load_package")

TESTS_OF_TORCH = _module("torch.testing._internal")

# Configuration values.
INDUCTOR_CONFIG = _module("torch._inductor.config")
SET_BY_DYNAMIC = {
    _key("torch._dynamo.config", "assume_static_by_default"),
    _key("torch._dynamo.config", "automatic_dynamic_shapes"),
}
DETERMINISTIC = _key(INDUCTOR_CONFIG, "deterministic", since=(2, 10))
COMPILE_THREADS = _key(INDUCTOR_CONFIG, "compile_threads")
# Settings that change inductor's checks of the machine.
MACHINE_SETTINGS = {_key(INDUCTOR_CONFIG, key) for key in ("cpp.vec_isa_ok", "cpp.cxx")}

# Settings under which inductor does less, or does it in another way: each may avoid one of its faults. The phrase is
# what of inductor does not take part then.
AVOIDING: tuple[tuple[tuple[str, str], Any, str], ...] = tuple(
    (_key(INDUCTOR_CONFIG, key), value, phrase)
    for key, value, phrase in (
        ("pattern_matcher", False, "inductor's pattern matcher"),
        ("joint_graph_constant_folding", False, "inductor's constant folding"),
        ("cpp.simdlen", 1, "inductor's vectorised C++ code"),
        ("cpp.threads", 1, "inductor's C++ code for several threads"),
        ("max_fusion_size", 1, "inductor's fusion of ops into one kernel"),
        ("epilogue_fusion", False, "inductor's fusion of epilogues"),
        ("inplace_buffers", False, "inductor's writes into the memory of an input of a kernel"),
        ("allow_buffer_reuse", False, "inductor's reuse of memory"),
        ("split_reductions", False, "inductor's split of reductions"),
        ("layout_optimization", False, "inductor's change of layouts"),
        ("comprehensive_padding", False, "inductor's padding"),
        ("emulate_precision_casts", True, "inductor's fused code, which leaves out casts to a lower precision"),
        ("fallback_random", True, "inductor's random numbers"),
        ("freezing", False, "inductor's freezing of parameters"),
        ("max_autotune", False, "inductor's choice among kernels"),
    )
)
# Inductor writes into this folder what it makes of a graph.
DUMPS, DUMP_FOLDER = (_key(INDUCTOR_CONFIG, key) for key in ("trace.enabled", "trace.debug_dir"))
DISABLED_PASSES = _key(INDUCTOR_CONFIG, "disabled_passes", since=(2, 11))
# Attributes of objects, and other texts.
WRAPPED_BACKEND = _text("torch._dynamo.eval_frame", "_torchdynamo_orig_backend", since=(2, 9))
WRAPPED_CALLABLE = _text("torch._dynamo.eval_frame", "_torchdynamo_orig_callable", until=(2, 8))
WRAPPER_ID = _text("torch._dynamo.eval_frame", "_torchdynamo_wrapper_id", since=(2, 12))
LAZY_FORWARD = _text("torch.fx._lazy_graph_module", "_lazy_forward")
DYNAMIC_MARKS = tuple(
    _text("torch._dynamo.decorators", f"_dynamo_{how}_indices") for how in ("dynamic", "weak_dynamic", "unbacked")
)
_OUTPUT_GRAPH = "torch._dynamo.output_graph"
SOURCE_OF_NODE = _text(_OUTPUT_GRAPH, "_dynamo_source")
FLAT_NAMES = _text(_OUTPUT_GRAPH, "dynamo_flat_name_to_original_fqn")
COMPILE_ID = _text(_OUTPUT_GRAPH, "dynamo_compile_id")
REASON = _text(_OUTPUT_GRAPH, "compile_subgraph_reason")
PARAMETER_SOURCES = _text(_OUTPUT_GRAPH, "_param_name_to_source")
USER_STACKS = _text(_OUTPUT_GRAPH, "_source_to_user_stacks")
BACKEND_ID = _text(_OUTPUT_GRAPH, "backend_id", since=(2, 9))
MACHINE_CHECK = _text("torch._inductor.cpu_vec_isa", "_chk_kernel")  # in sources that check for vector instructions
CACHES_OF_GRAPHS = (  # folders in inductor's cache
    _text("torch._functorch._aot_autograd.autograd_cache", "aotautograd"),
    _text("torch._inductor.codecache", "fxgraph"),
)
ENTRY_POINTS = _text("torch._dynamo.backends.registry", "torch_dynamo_backends")  # the group of backends
# Begins Dynamo's path of a module with the variable of its model: `L['self']`, `G['models'][0]`, a closure's variable.
VARIABLE_OF_MODEL = re.compile(r"^[LG]\['\w+'\](\[[^]]*\]|\.__closure__\[\d+\]\.cell_contents)*\.?")
