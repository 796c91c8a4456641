"""What every probe of a Case stands on, made once before the first fork: the graph's targets and the
backend imported, the stored tensors in memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from minifier.case import BackendReference, Case
from minifier.errors import NoRepro
from minifier.fx.arguments import write
from minifier.fx.build import import_targets
from minifier.fx.tensors import StoredTensors
from minifier.fx.values import RecordedValues
from minifier.torch_private import compiler_for


@dataclass
class Bench:
    """Imported and loaded things that children inherit by the fork."""

    case: Case
    backend: Any
    tensors: StoredTensors
    recorded: RecordedValues | None = None

    def record(self, folder: Path) -> None:
        """Takes up values that a child recorded into `folder`."""
        self.recorded = RecordedValues(folder)


def _not_nodes(name: str) -> Any:
    raise KeyError(name)


def imported_backend(backend: BackendReference, path: Sequence[str]) -> Any:
    """What torch.compile takes as `backend=`; raises NoRepro, naming what is in the way.

    The import path is extended by what the script had: its folder, and what it added itself.
    """
    sys.path.extend(entry for entry in path if entry not in sys.path)
    names: dict[str, Any] = {"torch": torch}
    try:
        for line in backend.imports:
            exec(line, names)
        found = eval(backend.expression, names)
        compiler_for(found, backend.mode, plain_options(backend), backend.dynamic)
    except Exception as error:
        wanted = "; ".join((*backend.imports, f"backend={backend.expression}"))
        raise NoRepro(
            f"the backend {backend.name} cannot be had outside the script: `{wanted}` ends with "
            f"{type(error).__name__}: {error}"
        ) from error
    return found


def plain_options(backend: BackendReference) -> dict[str, Any] | None:
    """The options as the backend got them."""
    return None if backend.options is None else {k: write(v, _not_nodes) for k, v in backend.options.items()}


def make_bench(case: Case) -> Bench:
    """Imports what the graph calls and the backend; raises NoRepro if that is not possible."""
    backend = imported_backend(case.backend, (*case.backend.folders, *case.script.path))
    try:
        import_targets(case.graph)
    except (ImportError, AttributeError) as error:
        raise NoRepro(f"a function that the graph calls cannot be imported outside the script: {error}") from error
    tensors = StoredTensors(case.tensors)
    tensors.load_all()
    return Bench(case, backend, tensors)
