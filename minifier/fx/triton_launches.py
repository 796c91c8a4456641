"""Launches of Triton kernels, whose nodes hold numbers of a table, as calls that say which kernel."""

from __future__ import annotations

import sys
from typing import Any

from minifier.case.literals import OF_SCRIPT, SCRIPT
from minifier.case.values import Imported
from minifier.errors import CannotSave
from minifier.fx.script_definitions import expression_in_script
from minifier.torch_private import kernel_arguments, kernel_of, numbered_launch


def _function(kernel: Any) -> Any:
    """The Python function at the bottom of a kernel that is tuned, or has heuristics."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _path(kernel: Any) -> Imported:
    """Where the script, or the module that defines the kernel's function, has it."""
    function = _function(kernel)
    module = function.__module__
    if module == SCRIPT:
        name = expression_in_script(kernel)
        if name is not None:
            return Imported(f"{OF_SCRIPT}{name}")
    else:
        found = [name for name, held in vars(sys.modules.get(module, sys)).items() if held is kernel]
        if found:
            return Imported(f"{module}:{found[0]}")
    raise CannotSave(f"the Triton kernel {function.__qualname__}, which no name of {module} leads to")


def _constant(value: Any) -> Any:
    """A type of Triton's by the name that its module has for it; other values as they are."""
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ == "dtype":
        language = sys.modules["triton.language"]
        found = [name for name, held in vars(language).items() if held is value]
        if found:
            return Imported(f"triton.language:{found[0]}")
    return value


def launch_as_data(kwargs: dict[str, Any], read: Any) -> dict[str, Any]:
    """The arguments of a launch: `kernel`, `grid` and the kernel's own `arguments`, those of the graph `read` as any
    others. Raises CannotSave for a kernel with no name, and for what has no source."""
    if kwargs.get("tma_descriptor_metadata"):
        raise CannotSave("a Triton kernel that takes TMA descriptors")
    grids = [tuple(grid) for grid in kwargs["grid"]]
    if any(grid != grids[0] for grid in grids):
        raise CannotSave("a Triton kernel whose grid depends on the configuration that tuning chooses")
    arguments = {name: _constant(value) for name, value in kernel_arguments(kwargs).items()}
    held = {name: value if isinstance(value, Imported) else read(value) for name, value in arguments.items()}
    return {"kernel": _path(kernel_of(kwargs)), "grid": read(grids[0]), "arguments": held}


def launch_in_graph(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `launch_as_data`, once its values are those of a graph: what Dynamo has as the arguments."""
    kernel = kwargs["kernel"]
    grids = [kwargs["grid"]] * max(1, len(getattr(kernel, "configs", ())))
    return numbered_launch(kernel, kwargs["arguments"], grids)
