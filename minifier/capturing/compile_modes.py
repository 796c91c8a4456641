"""What a run of the script changes of torch.compile in its process: the backend, what is compiled, and the rounding."""

from __future__ import annotations

import builtins
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
from minifier.torch_side.torch_private.dynamo import compile_module_calls
from minifier.torch_side.torch_private.unsettled import Unsettled

# By how many eps eager's second run moves results: enough for what flips at a kink, as a ReLU in a long training.
_OTHER_ROUNDING_EPS = 32.0


def set_modes(terms: Terms) -> None:
    """Set what torch.compile does in this process, and how it rounds."""
    if terms.in_eager:
        set_stance("force_eager")
    if terms.uncompiled:
        _exclude(terms.uncompiled)
    if terms.other_rounding:
        Unsettled(_OTHER_ROUNDING_EPS).__enter__()  # type: ignore[no-untyped-call]
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
        compile_module_calls(compile_)


_TORCH_NN = "torch.nn.modules."


def statement_of(class_path: str) -> str:
    """Return the statement that excludes a class, `module:qualname`, from compilation.

    >>> statement_of("torch.nn.modules.activation:ReLU")
    'torch.nn.ReLU.forward = torch.compiler.disable(torch.nn.ReLU.forward)'
    """
    module, _, name = class_path.partition(":")
    if module.startswith(_TORCH_NN):
        module = "torch.nn"
    forward = f"{name}.forward" if module == "__main__" else f"{module}.{name}.forward"
    return f"{forward} = torch.compiler.disable({forward})"


def _exclude(class_path: str) -> None:
    """Exclude a class, `module:qualname`, from compilation in this process: now, and whenever it is defined."""
    module, _, name = class_path.partition(":")
    build = builtins.__build_class__

    def exclude_class(made: Any) -> None:
        if isinstance(made, type) and issubclass(made, torch.nn.Module):
            made.forward = torch.compiler.disable(made.forward)  # type: ignore[no-untyped-call]

    def build_class(*args: Any, **kwargs: Any) -> Any:
        made = build(*args, **kwargs)
        if (getattr(made, "__module__", ""), getattr(made, "__qualname__", "")) == (module, name):
            exclude_class(made)
        return made

    builtins.__build_class__ = build_class
    made: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        made = getattr(made, part, None)
    exclude_class(made)
