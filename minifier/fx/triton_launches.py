"""Launches of Triton kernels: Dynamo's numbers in a table, and plain data with the kernel's path."""

from __future__ import annotations

from typing import Any

from minifier.case.literals import SCRIPT
from minifier.case.values import Imported
from minifier.errors import CannotSave
from minifier.fx.holders import in_module, in_script
from minifier.torch_private import kernel_arguments, kernel_of, numbered_launch, unknown_arguments


def _function(kernel: Any) -> Any:
    """Return the Python function inside a kernel with autotuning or heuristics."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def _path(kernel: Any) -> Imported:
    """Return the kernel's path in the script, or in the module that defines its function."""
    function = _function(kernel)
    module = function.__module__
    name = in_script(kernel) if module == SCRIPT else in_module(kernel, module)
    if name is not None:
        return Imported(f"{module}:{name}")
    raise CannotSave(f"the Triton kernel {function.__qualname__}, which no name of {module} leads to")


def _constant(value: Any) -> Any:
    """Return a dtype of Triton as its import path, other values unchanged."""
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ == "dtype":
        name = in_module(value, "triton.language")
        if name is not None:
            return Imported(f"triton.language:{name}")
    return value


def launch_as_data(kwargs: dict[str, Any], read: Any) -> dict[str, Any]:
    """Return the launch as `kernel`, `grid` and the kernel's `arguments`; `read` converts values of the graph.

    Raises CannotSave for a kernel without a name, or a value without source."""
    if kwargs.get("tma_descriptor_metadata"):
        raise CannotSave("a Triton kernel that takes TMA descriptors")
    if unknown := unknown_arguments(kwargs):
        raise CannotSave(f"a Triton kernel that is launched with {', '.join(unknown)}")
    grids = [tuple(grid) for grid in kwargs["grid"]]
    if any(grid != grids[0] for grid in grids):
        raise CannotSave("a Triton kernel whose grid depends on the configuration that tuning chooses")
    arguments = {name: _constant(value) for name, value in kernel_arguments(kwargs).items()}
    data = {name: value if isinstance(value, Imported) else read(value) for name, value in arguments.items()}
    return {"kernel": _path(kernel_of(kwargs)), "grid": read(grids[0]), "arguments": data}


def launch_in_graph(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return Dynamo's arguments of a launch: the inverse of `launch_as_data`, for values of a graph."""
    kernel = kwargs["kernel"]
    grids = [kwargs["grid"]] * max(1, len(getattr(kernel, "configs", ())))
    return numbered_launch(kernel, kwargs["arguments"], grids)
