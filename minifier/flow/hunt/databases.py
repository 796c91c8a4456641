"""Programs from the databases of torch's own tests, which are no public interface: operators and modules."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from minifier.data.torch_names import TESTS_OF_TORCH
from minifier.errors import UsageError
from minifier.flow.hunt.programs import Call, NoSuchProgram, Program, ProgramFilter, call_of

OPERATORS = "ops"
"""The name of the source of operators."""

MODELS_OF_OPERATORS = Path(__file__).with_name("operators_of_models.json")
"""In how many architectures of transformers 5 an operator is called; scripts/count_operators.py has counted them."""


@functools.cache
def models_of_operators() -> dict[str, int]:
    """Return the number of architectures of transformers that call an operator, by its name."""
    return dict(json.loads(MODELS_OF_OPERATORS.read_text(encoding="utf-8")))


def operators(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the operators of torch's database on the CPU, those of most models first: the first sample of each, then
    the second.

    Raises UsageError if the database cannot be imported.
    """
    models = models_of_operators()
    known = [each for each in database() if wanted.has(each.full_name)]
    known.sort(key=lambda each: -models.get(each.full_name, 0))
    for number in range(wanted.samples):
        for operator in known:
            for dtype in _dtypes(operator, wanted):
                make = functools.partial(_call_of_operator, operator, getattr(torch, dtype), number, wanted.training)
                yield Program(operator.full_name, dtype, number, make)


def database() -> list[Any]:
    """Return torch's operator database. Raises UsageError if it cannot be imported."""
    module: Any = _imported("common_methods_invocations")
    # An operator that draws random numbers is called by this function, which sets a seed: Dynamo does not trace that.
    module.wrapper_set_seed = _called
    return list(module.op_db)


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _call_of_operator(operator: Any, dtype: torch.dtype, number: int, training: bool) -> Call:
    # Not `sample_inputs`, which looks for a test case in the stack: that takes ten times as long as the sample.
    has_gradient = operator.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = operator.sample_inputs_func(operator, "cpu", dtype, training and has_gradient)
    sample = _nth(samples, number)
    return call_of(operator.full_name, operator.op, (sample.input, *sample.args), sample.kwargs)


def modules(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the modules of torch's database on the CPU: the first sample of each, then the second.

    Raises UsageError if the database cannot be imported.
    """
    known = [each for each in _imported("common_modules").module_db if wanted.has(each.name)]
    for number in range(wanted.samples):
        for info in known:
            for dtype in _dtypes(info, wanted):
                for training in (True, False) if info.train_and_eval_differ else (False,):
                    kind = getattr(torch, dtype)
                    make = functools.partial(_call_of_module, info, kind, number, training, wanted.training)
                    yield Program(info.name, f"{dtype} train" if training else dtype, number, make)


def _call_of_module(info: Any, dtype: torch.dtype, number: int, training: bool, backward: bool) -> Call:
    samples = info.module_inputs_func(info, "cpu", dtype, requires_grad=backward, training=training)
    sample = _nth(samples, number)
    if sample.forward_input is None:
        raise NoSuchProgram
    made, given = sample.constructor_input, sample.forward_input
    module = info.module_cls(*made.args, **made.kwargs).to("cpu", dtype).train(training)
    return call_of(info.name, module, given.args, given.kwargs)


def _dtypes(info: Any, wanted: ProgramFilter) -> Iterator[str]:
    """Yield the wanted dtypes that an operator or module supports."""
    has = {str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu")}
    return filter(has.__contains__, wanted.dtypes)


def _nth(samples: Iterable[Any], number: int) -> Any:
    """Return a sample. Raises NoSuchProgram beyond the last one."""
    for sample in itertools.islice(samples, number, None):
        return sample
    raise NoSuchProgram


def _imported(module: str) -> ModuleType:
    """Import a module of torch's own tests, which takes seconds. Raises UsageError if that is not possible.

    torch's tests forbid that flags like `torch.backends.cudnn.enabled` are set; here a backend may still set them.
    """
    forbid = torch.backends.disable_global_flags
    torch.backends.disable_global_flags = lambda: None
    try:
        return importlib.import_module(f"{TESTS_OF_TORCH}.{module}")
    except ImportError as error:
        raise UsageError(
            f"torch's own tests cannot be imported: {error}. `pip install expecttest` is what they need."
        ) from error
    finally:
        torch.backends.disable_global_flags = forbid
