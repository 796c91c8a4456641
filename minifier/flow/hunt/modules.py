"""Programs from torch's database of modules: each module on its samples, in training and in evaluation."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from minifier.flow.hunt.programs import Call, NoSuchProgram, Program, ProgramFilter, call_of
from minifier.flow.hunt.torch_databases import imported


def modules(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the modules of torch's database on the CPU: the first sample of each, then the second.

    Raises UsageError if the database cannot be imported.
    """
    known = [each for each in imported("common_modules").module_db if wanted.has(each.name)]
    for number in range(wanted.samples):
        for info in known:
            has = {str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu")}
            for dtype in wanted.dtypes:
                for training in (True, False) if info.train_and_eval_differ else (False,):
                    if dtype in has:
                        make = functools.partial(
                            _sample, info, getattr(torch, dtype), number, training, wanted.training
                        )
                        yield Program(info.name, f"{dtype} train" if training else dtype, number, make)


def _sample(info: Any, dtype: torch.dtype, number: int, training: bool, backward: bool) -> Call:
    samples = info.module_inputs_func(info, "cpu", dtype, requires_grad=backward, training=training)
    sample = next(itertools.islice(iter(samples), number, None), None)
    if sample is None or sample.forward_input is None:
        raise NoSuchProgram
    made, given = sample.constructor_input, sample.forward_input
    module = info.module_cls(*made.args, **made.kwargs).to("cpu", dtype).train(training)
    return call_of(info.name, module, given.args, given.kwargs)
