"""The private names of torch that a release may lack, or have in another form: each with what is lost then.

The other files of this package import the names without which nothing works. `minify doctor` looks for all of these.
"""

from __future__ import annotations

from functools import partial

from minifier.torch_side.interfaces import TORCH, Interface, InterfaceState

EVERYTHING = "everything: the tool does not start"
INTERFACES: list[Interface] = []


def _declare(*places: str, loses: str, parameters: tuple[str, ...] = ()) -> Interface:
    """Declare a private interface: `module:qualified.name`, the newest release's first where releases differ."""
    interface = Interface(places, loses, parameters)
    INTERFACES.append(interface)
    return interface


_ENV = "torch.fx.experimental.symbolic_shapes:ShapeEnv"
_OUTPUT_GRAPH = "torch._dynamo.output_graph:OutputGraph"

# Attributes of imported objects, and parameters of imported functions.
_needed = partial(_declare, loses=EVERYTHING)
for _place in (
    "torch:Tensor._base",
    "torch:Tensor._is_zerotensor",
    "torch:Tensor._version",
    "torch:UntypedStorage._cdata",
    "torch._dynamo.config:_config",
    "torch._dynamo.variables.torch_function:TorchFunctionModeStackStateManager.stack",
    "torch._ops:OpOverload._schema",
    "torch.utils._config_module:ConfigModule._is_default",
    "torch.utils._config_module:_ConfigEntry.alias",
    "torch.utils._config_module:_ConfigEntry.env_value_force",
    f"{_ENV}.settings",
):
    _needed(_place)
_needed("torch:_TorchCompileInductorWrapper", parameters=("mode", "options", "dynamic"))
_needed("torch:_TorchCompileWrapper", parameters=("backend", "mode", "options", "dynamic"))

# Dynamo's calls of backends.
_graphs = partial(_declare, loses="graphs: no backend call is caught, and the script is reduced instead")
CALL_COMPILER = _graphs(f"{_OUTPUT_GRAPH}.call_user_compiler", parameters=("self", "gm", "example_inputs"))
_graphs(f"{_OUTPUT_GRAPH}.compiler_fn")
FUNCTION = _graphs("torch:_TorchCompileWrapper.compiler_fn")

_options = partial(_declare, loses="the mode and options of torch.compile as they were given to a backend")
WRAPPER_INIT = _options("torch:_TorchCompileInductorWrapper.__init__", parameters=("self", "mode", "options"))
WRAPPER_CONFIG = _options("torch:_TorchCompileInductorWrapper.config")
WRAPPER_DYNAMIC = _options("torch:_TorchCompileInductorWrapper.dynamic")
NAME = _options("torch:_TorchCompileWrapper.compiler_name")
KEYWORDS = _options("torch:_TorchCompileWrapper.kwargs")
DYNAMIC = _options("torch:_TorchCompileWrapper.dynamic")

# A checkpoint raises it to end a call: it has recomputed enough.
STOP_RECOMPUTATION = _declare(
    "torch.utils.checkpoint:_StopRecomputationError",
    loses="the end of a checkpoint's recomputation: it counts as a failure",
)
WRITE_LAZY_CODE = _declare(
    "torch.fx._lazy_graph_module:_LazyGraphModule.force_recompile",
    loses="compiled functions as Dynamo takes them, where a backend returns a graph module's forward",
)
_distributed = partial(_declare, loses="the backend of a module in DistributedDataParallel")
DDP_OPTIMIZER = _distributed("torch._dynamo.backends.distributed:DDPOptimizer")
DDP_BACKEND = _distributed("torch._dynamo.backends.distributed:DDPOptimizer.backend_compile_fn")
_compilers = partial(_declare, loses="the compilers of a backend that the script makes with aot_autograd(...)")
AOT_BACKEND_CLASS = _compilers("torch._dynamo.backends.common:AotAutograd")
AOT_KEYWORDS = _compilers("torch._dynamo.backends.common:AotAutograd.kwargs")
COMPILED_CALL = _declare("torch.nn.modules.module:Module._compiled_call_impl", loses="modules compiled where called")
DISABLE_INFERENCE_MODE = _declare(
    "torch._dynamo.convert_frame:maybe_disable_inference_mode", loses="inference mode: repros do not enter it"
)

COMPILED_FUNCTION = _declare(
    "torch._dynamo.eval_frame:_TorchDynamoContext.__call__",
    loses="what the script sees of calls of compiled code: only graphs are compared with eager mode",
    parameters=("self", "fn"),
)

_tracing = partial(_declare, loses="failures of Dynamo while it traces an op: the script is reduced instead")
TRACE_FRAME = _tracing("torch._dynamo.symbolic_convert:InstructionTranslator.run", parameters=("self",))
RUN_NODE = _tracing("torch._dynamo.utils:run_node", parameters=("node",))
for _attribute in ("cleanup", "example_inputs", "graph", "nn_modules"):
    _tracing(f"{_OUTPUT_GRAPH}.{_attribute}")

_caches_restored = partial(_declare, loses="Dynamo's caches as they were before `minifier.minify` and `minifier.check`")
CODES = _caches_restored("torch._dynamo.convert_frame:input_codes")
ENTRIES = _caches_restored("torch._dynamo.eval_frame:_debug_get_cache_entry_list", parameters=("code",))
DELETED = _caches_restored("torch._dynamo.guards:DeletedGuardManagerWrapper")
COMPILER_OF_ENTRY = _caches_restored("torch._C._dynamo.eval_frame:_CacheEntry.backend")
RESET = _caches_restored("torch._dynamo.eval_frame:reset_code")
REMOVAL = _caches_restored("torch._C._dynamo.eval_frame:_ExtraState.invalidate")
SEEN_SIZES = _caches_restored("torch._dynamo.pgo:_CODE_STATE")

# What a probe imitates of Dynamo's calls.
_setting = partial(_declare, loses="a setting of Dynamo while a probe calls a backend")
SCALAR_OUTPUTS = _setting("torch._dynamo.config:capture_scalar_outputs")
DYNAMIC_OUTPUTS = _setting("torch._dynamo.config:capture_dynamic_output_shape_ops")
LAZY_MODULES = _setting("torch._dynamo.config:use_lazy_graph_module")
SAVE_STATE = _setting(f"{_OUTPUT_GRAPH}.save_global_state", parameters=("self", "out"))
DATA_POINTERS = _setting("torch._functorch.config:fake_tensor_allow_unsafe_data_ptr_access")
# Dynamo compiles in a session since torch 2.13.
SESSION = _setting("torch.compiler:_compile_session_context") if TORCH >= (2, 13) else None
ASKS_FOR_DEVICES = _declare(
    "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init",
    loses="probes that use CUDA, of a graph on the CPU: CUDA's driver starts before they are forked",
)

STATIC = _declare("torch._dynamo.config:assume_static_by_default", loses="whether a script compiles with dynamic=True")
MARK_STATIC = _declare("torch._dynamo:mark_static", loses="which sizes of a probe's inputs are fixed")

# Registries.
_registrations = partial(_declare, loses="which import registers a backend or a library of ops")
BACKENDS = _registrations("torch._dynamo.backends.registry:_COMPILER_FNS")
DEFINE = _registrations("torch.library:Library.define", parameters=("self", "schema"))
LAZY_BACKENDS = _declare("torch._dynamo.backends.registry:_BACKENDS", loses="the entry points of backends")

# AOTAutograd, whose modules take a fifth of a second to import, and autograd.
_STAGES = "torch._functorch._aot_autograd.graph_compile"
_aot = partial(_declare, loses="graphs of AOTAutograd: failures of backward graphs")
AOT_MODULE = _aot("torch._functorch.aot_autograd:aot_module_simplified")
# The second names are those of torch 2.8.
COMPILE_TRAINING = _aot(f"{_STAGES}:aot_stage2_autograd", "torch._functorch.aot_autograd:aot_dispatch_autograd")
COMPILE_INFERENCE = _aot(f"{_STAGES}:aot_stage2_inference", "torch._functorch.aot_autograd:aot_dispatch_base")
CALL_COMPILED = _aot(
    "torch._functorch._aot_autograd.runtime_wrappers:call_func_at_runtime_with_args", parameters=("f", "args")
)
CACHE_LOOKUP = _aot("torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache._lookup", parameters=("key",))
DONATED_BUFFERS = _declare(
    "torch._functorch.config:donated_buffer", loses="comparisons of gradients whose graph the script retains"
)
ENGINES = [
    _declare(f"{module}:_engine_run_backward", loses="which graphs train: wrong gradients", parameters=("t_outputs",))
    for module in ("torch.autograd.graph", "torch.autograd")
]
KEEP_VERSIONS = _declare(
    "torch.autograd.grad_mode:_unsafe_preserve_version_counter",
    loses="version counters: autograd sees that inputs were restored",
    parameters=("tensors",),
)
CLEAR_TRANSFORMS = _declare(
    "torch._functorch.pyfunctorch:temporarily_clear_interpreter_stack",
    loses="recorded values of graphs inside the transforms of torch.func",
)
CROSS_REFERENCE = _declare(
    "torch._subclasses.fake_utils:CrossRefFakeMode", loses="whether the fake kernel of a custom operator is at fault"
)
_declare(
    "torch.utils._python_dispatch:TorchDispatchMode.supports_higher_order_operators",  # since torch 2.9
    loses="known values in the bodies of higher-order ops: a body keeps more ops and inputs than it needs",
)

# Inductor.
_caches = partial(
    _declare,
    loses="inductor's caches: a probe may get what was compiled for another candidate, or compile again",
)
COMPILE_THREADS = _caches("torch._inductor.config:compile_threads")
GRAPH_CACHES = [
    _caches("torch._inductor.config:fx_graph_cache"),
    _caches("torch._inductor.config:fx_graph_remote_cache"),
    _caches("torch._functorch.config:enable_autograd_cache"),
]
CACHE_FOLDER = _caches("torch._inductor.runtime.cache_dir_utils:default_cache_dir")
VECTORS = _caches("torch._inductor.cpu_vec_isa:valid_vec_isa_list")
_each_time = partial(_declare, loses="time: each probe with inductor makes anew what is made once")
KEY = _each_time("torch._inductor.codecache:torch_key")
HEADER = _each_time("torch._inductor.codecache:_precompile_header", parameters=("header", "hashable_cmd_line"))
PATTERNS = _each_time("torch._inductor.fx_passes.joint_graph:lazy_init")
GUARDS_TIMED = _declare(
    "torch._dynamo.guards:profile_guard_manager", loses="time: Dynamo times the guards of each function that it traces"
)
THREADS = _declare(
    "torch._inductor.async_compile:AsyncCompile.pool", loses="inductor in a fork of a process that has compiled"
)
LOADING = _declare(
    "torch._inductor.graph:GraphLowering._compile_to_module_lines",
    loses="time: a probe that is past the step that fails goes on to compile what inductor has written",
)
DISABLES = _declare(
    "torch._inductor.compiler_bisector:CompilerBisector.disable_subsystem",
    loses="which pass of inductor is at fault",
    parameters=("backend", "subsystem", "debug_info"),
)
_exported = partial(_declare, loses="failures of AOTInductor")
COMPILE_PACKAGE = _exported(
    "torch._inductor:aoti_compile_and_package", parameters=("exported_program", "inductor_configs")
)
CALL_PACKAGE = _exported("torch.export.pt2_archive._package:AOTICompiledModel.__call__", parameters=("self",))
LOAD_PACKAGE = _exported("torch._inductor:aoti_load_package", parameters=("path",))
RUN_PACKAGE = _exported("torch._C._aoti:AOTIModelPackageLoader.boxed_run")

# The process.
NVML_COUNT = _declare(
    "torch.cuda:_device_count_nvml",
    loses="speed: modules that ask for CUDA when they are imported are imported in each probe",
)
PRINT_STACKS = _declare(
    "torch._C:_set_print_stack_traces_on_fatal_signal",
    loses="native stacks: deaths in native code are told apart by their signal alone",
)


def _not_working() -> list[Interface]:
    """Return the interfaces that this torch lacks or has in another form, of loaded modules."""
    works = (InterfaceState.WORKS, InterfaceState.NOT_LOADED)
    return [interface for interface in INTERFACES if interface.state() not in works]


def missing_altogether() -> list[str]:
    """Return the indispensable names that this torch lacks, of loaded modules."""
    return [interface.place for interface in _not_working() if interface.loses == EVERYTHING]


def look() -> None:
    """Look for the interfaces in the modules that are loaded, and remember which are missing or changed."""
    for interface in _not_working():
        interface.tell_loss(f"{interface.place} is {interface.state().value}")
