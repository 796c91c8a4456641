"""All uses of torch's private interfaces, of the releases in docs/reference/versions.md.

Each function has a test in tests/test_torch_private*.py that fails if a release of torch changes what it needs.
"""

# The names imported here are this package's public names.
# ruff: noqa: F401
# mypy: implicit-reexport

from minifier.torch_private.aot import (
    BACKWARD,
    FORWARD,
    INFERENCE,
    NoCompiler,
    as_aot_calls_backward,
    backward_arguments,
    call_compiled,
    copied_graph,
    note_backward_passes,
    observe_aot_compilers,
    with_aot_compiler,
    without_donated_buffers,
)
from minifier.torch_private.autograd import NodeId, node_of, nodes_below, versions_kept, zeros_without_memory
from minifier.torch_private.calls import (
    AskedBackend,
    Call,
    Observe,
    aot_autograd_arguments,
    as_dynamo_takes,
    asked_backend,
    backend_error,
    compiler_for,
    is_failure,
    note_at_compile,
    observe_backend_calls,
)
from minifier.torch_private.configuration import config_values, has_config, is_default_config, set_config
from minifier.torch_private.decompositions import BUILT_IN_MODULES, operator_path, parts_of
from minifier.torch_private.devices import asking_nvml, device_kinds, imports_refused_devices, is_capturing
from minifier.torch_private.draws import Draw, OtherDraws, giving_draws, noting_draws
from minifier.torch_private.dynamo_caches import compiled_entries, dynamo_caches_restored, isolated_compile
from minifier.torch_private.dynamo_graph import add_arguments, complete_module
from minifier.torch_private.exported import inputs_written_to, module_of_export, observe_aot_inductor
from minifier.torch_private.fakes import (
    as_dynamo_calls,
    as_hint,
    asking_for_no_device,
    expression_of,
    fake_tensor,
    graph_module,
    is_fake,
    local_source,
    new_fake_mode,
    static_context,
    storage_key,
)
from minifier.torch_private.inductor import (
    INDUCTOR,
    compile_in_this_process,
    forget_threads,
    inductor_cache,
    inductor_entry,
    inductor_folder,
    inductor_headers,
    link_headers,
    link_libraries,
    tame_inductor,
    warm_up_inductor,
)
from minifier.torch_private.kernels import LAUNCH, kernel_arguments, kernel_of, numbered_launch, unknown_arguments
from minifier.torch_private.modes import (
    as_while_compiling,
    default_device,
    inference_mode_outside,
    note_inference_mode,
    other_function_modes,
    without_modes,
)
from minifier.torch_private.module_calls import compile_module_calls
from minifier.torch_private.native_stacks import print_native_stacks
from minifier.torch_private.registrations import (
    Stack,
    backend_table,
    entry_point_of,
    note_registrations,
    operator_stack,
    registered_names,
    registration_stack,
)
from minifier.torch_private.symbols import SymbolicSizes, assumes_dynamic, mark_static, marked_dims, symbols_of
from minifier.torch_private.tracing import FindGraph, TracedGraph, observe_tracing
from minifier.torch_private.transforms import outside_transforms, transforms_ended
from minifier.torch_private.unsettled import move, unsettled
