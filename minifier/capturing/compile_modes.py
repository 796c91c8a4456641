"""What a run of the script changes of torch.compile in its process: the backend, and the rounding."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.compiler import set_stance

from minifier.capturing.script_limits import Terms
from minifier.capturing.watched_script import hurry
from minifier.torch_side.torch_private import dynamo, unsettled

# By how many eps eager's second run moves results: enough for what flips at a kink, as a ReLU in a long training.
_OTHER_ROUNDING_EPS = 32.0


def set_modes(terms: Terms) -> None:
    """Set what torch.compile does in this process, and how it rounds."""
    if terms.in_eager:
        set_stance("force_eager")
    if terms.other_rounding:
        unsettled.Unsettled(_OTHER_ROUNDING_EPS).__enter__()  # type: ignore[no-untyped-call]
        hurry()


_OF_A_BACKEND = ("mode", "options")  # arguments that mean something to the script's own backend only


def compile_with(backend: str, modules: Sequence[str], module_calls: bool) -> None:
    """Have every torch.compile of this process use the backend, from now on.

    `backend` is a registered name; or MODULE:NAME, for a backend that the module registers or holds. `modules` are
    imported first: from the script's folder, the current one, or wherever Python finds them. With `module_calls`, calls
    of modules from outside of modules are compiled too.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    of, _, name = backend.rpartition(":")
    imported = [importlib.import_module(module) for module in (*modules, *([of] if of else []))]
    chosen = getattr(imported[-1], name, name) if of else name
    original: Any = torch.compile

    @functools.wraps(original)
    def compile_(*args: Any, **keywords: Any) -> Any:
        rest = {key: value for key, value in keywords.items() if key not in _OF_A_BACKEND}
        return original(*args, **{**rest, "backend": chosen})

    torch.compile = compile_
    if module_calls:
        dynamo.compile_module_calls(compile_)
