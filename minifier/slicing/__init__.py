"""Takes from a module what a name needs, as source, without running the module."""

from minifier.slicing.slices import Wanted, slice_module

__all__ = ["Wanted", "slice_module"]
