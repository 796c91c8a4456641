"""Recognise inductor's entry function in a frame."""

from __future__ import annotations

import sys
from types import CodeType

from minifier.interfaces.names import COMPILE_FX


def inductor_entry() -> CodeType | None:
    """Return the code of inductor's function that compiles a graph; None if inductor is not imported."""
    function = getattr(sys.modules.get(COMPILE_FX), "compile_fx", None)
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
