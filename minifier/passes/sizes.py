"""Sizes: dynamic shapes to static ones."""

from __future__ import annotations

from minifier.case import Case
from minifier.passes.edits import Edit, Pass
from minifier.passes.symbols import has_symbols, specialised


def _static(case: Case) -> list[Edit]:
    return [specialised] if has_symbols(case.inputs) else []


PASSES = (Pass("static", "dynamic shapes to static ones", _static, asked=True),)
