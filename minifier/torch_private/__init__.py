"""Every private API of torch that this tool touches, and nothing else does.

Each function here has a test in tests/test_torch_private.py that fails loudly when a release of torch
changes what it stands on. Read against torch 2.13.
"""

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
)
from minifier.torch_private.autograd import NodeId, node_of, nodes_below, versions_kept
from minifier.torch_private.calls import (
    AskedBackend,
    Call,
    Observe,
    aot_autograd_arguments,
    asked_backend,
    backend_error,
    compiler_for,
    is_failure,
    observe_backend_calls,
)
from minifier.torch_private.configuration import config_values, has_config, is_default_config, set_config
from minifier.torch_private.draws import Draw, OtherDraws, giving_draws, noting_draws
from minifier.torch_private.fakes import (
    as_dynamo_calls,
    fake_tensor,
    graph_module,
    local_source,
    new_fake_mode,
    static_context,
)
from minifier.torch_private.inductor import (
    inductor_cache,
    inductor_folder,
    inductor_headers,
    link_headers,
    link_libraries,
    tame_inductor,
    warm_up_inductor,
)
from minifier.torch_private.kernels import LAUNCH, kernel_arguments, kernel_of, numbered_launch
from minifier.torch_private.modes import (
    as_while_compiling,
    default_device,
    inference_mode_outside,
    note_inference_mode,
    other_function_modes,
    without_modes,
)
from minifier.torch_private.numbers import as_hint, expression_of, is_fake, storage_key
from minifier.torch_private.parts import parts_of
from minifier.torch_private.registrations import (
    Stack,
    backend_table,
    entry_point_of,
    library_stack,
    note_registrations,
    registered_names,
    registration_stack,
)
from minifier.torch_private.symbols import SymbolicSizes, assumes_dynamic, marked_dims, symbols_of, warm_up_symbols
from minifier.torch_private.transforms import outside_transforms, transforms_ended
from minifier.torch_private.unsettled import move, unsettled

__all__ = [
    "BACKWARD",
    "FORWARD",
    "INFERENCE",
    "LAUNCH",
    "AskedBackend",
    "Call",
    "Draw",
    "NoCompiler",
    "NodeId",
    "Observe",
    "OtherDraws",
    "Stack",
    "SymbolicSizes",
    "aot_autograd_arguments",
    "as_aot_calls_backward",
    "as_dynamo_calls",
    "as_hint",
    "as_while_compiling",
    "asked_backend",
    "assumes_dynamic",
    "backend_error",
    "backend_table",
    "backward_arguments",
    "call_compiled",
    "compiler_for",
    "config_values",
    "copied_graph",
    "default_device",
    "entry_point_of",
    "expression_of",
    "fake_tensor",
    "giving_draws",
    "graph_module",
    "has_config",
    "inductor_cache",
    "inductor_folder",
    "inductor_headers",
    "inference_mode_outside",
    "is_default_config",
    "is_failure",
    "is_fake",
    "kernel_arguments",
    "kernel_of",
    "library_stack",
    "link_headers",
    "link_libraries",
    "local_source",
    "marked_dims",
    "move",
    "new_fake_mode",
    "node_of",
    "nodes_below",
    "note_backward_passes",
    "note_inference_mode",
    "note_registrations",
    "noting_draws",
    "numbered_launch",
    "observe_aot_compilers",
    "observe_backend_calls",
    "other_function_modes",
    "outside_transforms",
    "parts_of",
    "registered_names",
    "registration_stack",
    "set_config",
    "static_context",
    "storage_key",
    "symbols_of",
    "tame_inductor",
    "transforms_ended",
    "unsettled",
    "versions_kept",
    "warm_up_inductor",
    "warm_up_symbols",
    "with_aot_compiler",
    "without_modes",
]
