"""Takes from a module what a name needs, as source, without running the module."""

from minifier.slicing.cases import definitions_left, names_bound, with_definitions
from minifier.slicing.slices import Wanted, slice_module

__all__ = ["Wanted", "definitions_left", "names_bound", "slice_module", "with_definitions"]
