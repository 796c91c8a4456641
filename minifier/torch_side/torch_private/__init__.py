"""All uses of torch's private interfaces, of the releases in docs/reference/versions.md.

Each function has a test in tests/test_torch_private*.py that fails if a release of torch changes what it needs.
"""

# The names imported here are this package's public names.
# ruff: noqa: F401
# mypy: implicit-reexport

from minifier.torch_side.torch_private.aot import (
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
from minifier.torch_side.torch_private.autograd import (
    NodeId,
    node_of,
    nodes_below,
    outside_transforms,
    transforms_ended,
    versions_kept,
    zeros_without_memory,
)
from minifier.torch_side.torch_private.dynamo import (
    AskedBackend,
    Call,
    FindGraph,
    Observe,
    TracedGraph,
    aot_autograd_arguments,
    as_dynamo_takes,
    asked_backend,
    backend_error,
    compile_module_calls,
    compiled_entries,
    compiler_for,
    dynamo_caches_restored,
    is_failure,
    isolated_compile,
    note_at_compile,
    observe_backend_calls,
    observe_tracing,
)
from minifier.torch_side.torch_private.graphs import (
    SymbolicSizes,
    add_arguments,
    as_dynamo_calls,
    as_hint,
    asking_for_no_device,
    assumes_dynamic,
    complete_module,
    expression_of,
    fake_tensor,
    graph_module,
    is_fake,
    local_source,
    mark_static,
    marked_dims,
    new_fake_mode,
    static_context,
    storage_key,
    symbols_of,
)
from minifier.torch_side.torch_private.inductor import (
    INDUCTOR,
    LAUNCH,
    compile_in_this_process,
    forget_threads,
    inductor_cache,
    inductor_entry,
    inductor_folder,
    inductor_headers,
    inputs_written_to,
    kernel_arguments,
    kernel_of,
    link_headers,
    link_libraries,
    module_of_export,
    note_applications,
    numbered_launch,
    observe_aot_inductor,
    tame_inductor,
    unknown_arguments,
    warm_up_inductor,
)
from minifier.torch_side.torch_private.modes import (
    as_while_compiling,
    asking_nvml,
    config_values,
    default_device,
    device_kinds,
    has_config,
    imports_refused_devices,
    inference_mode_outside,
    is_capturing,
    is_default_config,
    note_inference_mode,
    other_function_modes,
    print_native_stacks,
    set_config,
    without_modes,
)
from minifier.torch_side.torch_private.registrations import (
    BUILT_IN_MODULES,
    Stack,
    backend_table,
    entry_point_of,
    note_registrations,
    operator_path,
    operator_stack,
    parts_of,
    registered_names,
    registration_stack,
)
from minifier.torch_side.torch_private.unsettled import Draw, OtherDraws, giving_draws, move, noting_draws, unsettled
