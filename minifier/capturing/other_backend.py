"""Compile a script with another backend than those it names: `minify run --backend NAME script.py`."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.torch_private import compile_module_calls

_OF_A_BACKEND = ("mode", "options")  # arguments that mean something to the script's own backend only


def compile_with(backend: str, modules: Sequence[str], module_calls: bool) -> Callable[[], None]:
    """Have every torch.compile of this process use the backend; return a function that ends this.

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
    end_calls = compile_module_calls(compile_) if module_calls else lambda: None

    def end() -> None:
        end_calls()
        torch.compile = original

    return end
