"""Compile modules where they are called."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from minifier.interfaces.declared import stands_on

_COMPILED_CALL = stands_on("torch.nn.modules.module:Module._compiled_call_impl", loses="modules compiled where called")


class _CompiledCall:
    """The attribute in which a module keeps what `Module.compile` made of it, made at the first call and kept for good.

    During a call, the modules that it reaches have none: they are part of its graphs, or of what a backend made of
    these.
    """

    def __init__(self, compile_module: Callable[[torch.nn.Module], Any]) -> None:
        self._compile_module = compile_module
        self._compiled: dict[torch.nn.Module, Any] = {}
        self._calls = threading.local()

    def __get__(self, module: torch.nn.Module | None, owner: type | None = None) -> Any:
        if module is None or torch.compiler.is_compiling() or isinstance(module, torch.jit.ScriptModule):
            return None
        if getattr(self._calls, "began", False):
            return None
        if module not in self._compiled:
            self._compiled[module] = self._compile_module(module)
        return functools.partial(self._call, self._compiled[module])

    def _call(self, compiled: Any, *args: Any, **keywords: Any) -> Any:
        self._calls.began = True
        try:
            return compiled(*args, **keywords)
        finally:
            self._calls.began = False


def compile_module_calls(compile_module: Callable[[torch.nn.Module], Any]) -> Callable[[], None]:
    """Compile each module that is called from outside of modules; return a function that ends this.

    A module on which `compile` was called stays as it is.
    """
    before = _COMPILED_CALL.find()
    _COMPILED_CALL.assign(_CompiledCall(compile_module))
    return lambda: _COMPILED_CALL.assign(before)
