"""Count in how many architectures of transformers each operator of torch's database is called.

`python scripts/count_operators.py` writes minifier/flow/hunt/operators_of_models.json, the order in which a hunt tries
them. Takes a minute. What a tiny configuration does not fit is left out, as in `minify hunt ... models`.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from minifier.flow.hunt.databases import MODELS_OF_OPERATORS, database
from minifier.flow.hunt.models import models
from minifier.flow.hunt.programs import ProgramFilter, seed_generators


class _Called(TorchFunctionMode):
    """Notes the functions that are called in its block, but not those that they call."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: set[Any] = set()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.functions.add(function)
        return function(*args, **(kwargs or {}))


def operators_by_function() -> dict[Callable[..., Any], set[str]]:
    """Return the names of the operators that each function of torch stands for: `torch.Tensor.add_` is `add` too."""
    found = defaultdict(list)
    for operator in database():
        forms = (operator, *operator.aliases)
        functions = {each for form in forms for each in (form.op, form.method_variant, form.inplace_variant)}
        functions |= {getattr(torch.Tensor, f"__{prefix}{operator.name}__", None) for prefix in ("", "r", "i")}
        with contextlib.suppress(AttributeError):  # the database calls some by a function of its own
            functions.add(attrgetter(operator.name)(torch))
        for function in filter(None, functions):
            found[function].append(operator)
    return {function: {each.full_name for each in _plain(found[function])} for function in found}


def _plain(operators: Sequence[Any]) -> Sequence[Any]:
    """Return those that are no variant, as `silu` and not `silu.complex`; if all are variants, return all."""
    return [each for each in operators if not each.variant_test_name] or operators


def main() -> None:
    """Run the models, and write the file."""
    warnings.simplefilter("ignore")
    known, counts, architectures = operators_by_function(), Counter[str](), 0
    for program in models(ProgramFilter()):
        seed_generators()
        try:
            call = program.make()
            with torch.no_grad(), _Called() as called:
                call.function(*call.tensors)
        except Exception as error:  # noqa: BLE001 - as in a hunt
            print(f"{program.subject}: left out: {type(error).__name__}")
            continue
        architectures += 1
        counts.update(set().union(*(known.get(function, set()) for function in called.functions)))
    ordered = dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
    Path(MODELS_OF_OPERATORS).write_text(json.dumps(ordered, indent=0) + "\n", encoding="utf-8")
    print(f"{len(ordered)} operators in {architectures} architectures")


if __name__ == "__main__":
    main()
