"""Every private API of torch that this tool touches, and nothing else does.

Each function here has a test in tests/test_torch_private.py that fails loudly when a release of torch
changes what it stands on. Read against torch 2.13.
"""

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
from minifier.torch_private.configuration import config_values, is_default_config, set_config
from minifier.torch_private.draws import Draw, OtherDraws, giving_draws, noting_draws
from minifier.torch_private.fakes import as_dynamo_calls, fake_tensor, graph_module, new_fake_mode
from minifier.torch_private.inductor import inductor_folder, inductor_headers, tame_inductor
from minifier.torch_private.numbers import as_hint, storage_key
from minifier.torch_private.registrations import (
    Stack,
    backend_table,
    entry_point_of,
    library_stack,
    note_registrations,
    registered_names,
    registration_stack,
)
from minifier.torch_private.unsettled import move, unsettled

__all__ = [
    "AskedBackend",
    "Call",
    "Draw",
    "Observe",
    "OtherDraws",
    "Stack",
    "aot_autograd_arguments",
    "as_dynamo_calls",
    "as_hint",
    "asked_backend",
    "backend_error",
    "backend_table",
    "compiler_for",
    "config_values",
    "entry_point_of",
    "fake_tensor",
    "giving_draws",
    "graph_module",
    "inductor_folder",
    "inductor_headers",
    "is_default_config",
    "is_failure",
    "library_stack",
    "move",
    "new_fake_mode",
    "note_registrations",
    "noting_draws",
    "observe_backend_calls",
    "registered_names",
    "registration_stack",
    "set_config",
    "storage_key",
    "tame_inductor",
    "unsettled",
]
