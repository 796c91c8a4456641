"""Slice a module's source: the statements that a name needs, found without running the module."""

from minifier.capturing.slicing.cases import (
    definitions_left,
    folders_imported_from,
    names_bound,
    with_definitions,
)
from minifier.capturing.slicing.slices import Wanted, slice_module

__all__ = [
    "Wanted",
    "definitions_left",
    "folders_imported_from",
    "names_bound",
    "slice_module",
    "with_definitions",
]
