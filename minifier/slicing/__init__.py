"""Takes from a module what a name needs, as source, without running the module."""

from minifier.slicing.backends import names_given
from minifier.slicing.cases import definitions_left, folders_imported_from, imported_tops, names_bound, with_definitions
from minifier.slicing.slices import Wanted, slice_module

__all__ = [
    "Wanted",
    "definitions_left",
    "folders_imported_from",
    "imported_tops",
    "names_bound",
    "names_given",
    "slice_module",
    "with_definitions",
]
