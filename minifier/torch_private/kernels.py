"""Triton kernels: Dynamo stores them in a side table, and nodes have their numbers."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

LAUNCH = torch.ops.higher_order.triton_kernel_wrapper_mutation
_KNOWN = ("kernel_idx", "constant_args_idx", "grid", "tma_descriptor_metadata", "kwargs")


def unknown_arguments(kwargs: dict[str, Any]) -> list[str]:
    """Return the names of a launch's arguments that this tool does not know, and that are not empty."""
    return [name for name, value in kwargs.items() if name not in _KNOWN and value]


def kernel_of(kwargs: dict[str, Any]) -> Any:
    """Return the kernel that a node with these arguments launches."""
    return kernel_side_table.get_kernel(kwargs["kernel_idx"])


def kernel_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel's arguments in the order of its parameters; launch options (`num_warps`) come last."""
    constants = kernel_side_table.get_constant_args(kwargs["constant_args_idx"])
    arguments = {**kwargs["kwargs"], **constants}
    order = [name for name in kernel_of(kwargs).arg_names if name in arguments]
    return {name: arguments[name] for name in [*order, *(name for name in arguments if name not in order)]}


def numbered_launch(kernel: Any, arguments: dict[str, Any], grid: list[Any]) -> dict[str, Any]:
    """Return the arguments of a node that launches the kernel. All arguments but nodes go to the side table."""
    in_graph = {name: value for name, value in arguments.items() if isinstance(value, torch.fx.Node)}
    constants = {name: value for name, value in arguments.items() if name not in in_graph}
    unknown = [
        name
        for name, parameter in inspect.signature(LAUNCH.__call__).parameters.items()
        if name not in _KNOWN and parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return {
        **{name: {} for name in unknown},
        "kernel_idx": kernel_side_table.add_kernel(kernel),
        "constant_args_idx": kernel_side_table.add_constant_args(constants),
        "grid": grid,
        "tma_descriptor_metadata": {},
        "kwargs": in_graph,
    }
