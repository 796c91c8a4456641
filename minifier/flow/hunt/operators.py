"""Programs from torch's operator database: each operator on its samples."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from minifier.flow.hunt.programs import Call, NoSuchProgram, Program, ProgramFilter, call_of
from minifier.flow.hunt.torch_databases import imported


def operators(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the operators of torch's database on the CPU: the first sample of each, then the second.

    Raises UsageError if the database cannot be imported.
    """
    known = [each for each in database() if wanted.has(each.full_name)]
    for number in range(wanted.samples):
        for operator in known:
            has = {str(dtype).removeprefix("torch.") for dtype in operator.supported_dtypes("cpu")}
            for dtype in wanted.dtypes:
                if dtype in has:
                    make = functools.partial(_sample, operator, getattr(torch, dtype), number, wanted.training)
                    yield Program(operator.full_name, dtype, number, make)


def database() -> list[Any]:
    """Return torch's operator database. Raises UsageError if it cannot be imported."""
    module: Any = imported("common_methods_invocations")
    # An operator that draws random numbers is called by this function, which sets a seed: Dynamo does not trace that.
    module.wrapper_set_seed = _called
    return list(module.op_db)


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _sample(operator: Any, dtype: torch.dtype, number: int, training: bool) -> Call:
    # Not `sample_inputs`, which looks for a test case in the stack: that takes ten times as long as the sample.
    has_gradient = operator.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = operator.sample_inputs_func(operator, "cpu", dtype, training and has_gradient)
    sample = next(itertools.islice(iter(samples), number, None), None)
    if sample is None:
        raise NoSuchProgram
    return call_of(operator.full_name, operator.op, (sample.input, *sample.args), sample.kwargs)
