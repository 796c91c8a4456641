"""Read the backend calls ahead of the failing call from a finished capture."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capturing.events import read_events
from minifier.case import BackendReference, Call, Case
from minifier.case.earlier_calls import call_of
from minifier.case.graph import tensor_keys
from minifier.case.store import CASE, load
from minifier.case.symbolic_sizes import is_symbolic, specialised
from minifier.errors import UsageError


@dataclass(frozen=True, slots=True)
class CapturedCallAhead:
    """A call of the backend ahead of the failing call, and its captured Case.

    `late`: its graph was compiled after the graph of the failing call.
    """

    case: Case
    call: Call
    late: bool


def read_calls_ahead(graphs: Path, number: int, call: int) -> tuple[CapturedCallAhead, ...]:
    """Return the calls of the same backend ahead of the call `call` of graph `number`, in their order.

    Symbolic sizes have become concrete. Graphs that could not be saved, or hold tensors of their own, are left out.
    """
    log = _LogAhead(graphs, number, call)
    backend = _identity(load(graphs / str(number)).backend)
    found = []
    for other in log.compiled:
        if (case := _loaded(graphs / str(other))) is None:
            continue
        if other not in log.of_same_function and _identity(case.backend) != backend:
            continue
        case = specialised(case)
        made = call_of(case, Call(times=max(1, log.runs[other]), backward=other in log.backward))
        if not is_symbolic(case) and not any(tensor_keys(case.graph)):
            found.append(CapturedCallAhead(case, made, other in log.late))
    return tuple(found)


class _LogAhead:
    """The events of a capture up to a failing call.

    `compiled` are the numbers of Dynamo's other graphs that were compiled by any backend, `late` the graphs compiled
    after the failing graph. `runs` counts the logged calls of each graph. `backward` are the graphs whose backward
    graph was compiled. `of_same_function` are the graphs compiled by the object that compiled the failing graph.
    """

    def __init__(self, graphs: Path, number: int, call: int) -> None:
        self.compiled: list[int] = []
        self.late: set[int] = set()
        self.runs: Counter[int] = Counter()
        self.backward: set[int] = set()
        forwards: dict[int, int | None] = {}
        functions: dict[int, int] = {}
        for event in read_events(graphs):
            name, of = event["event"], event.get("number", 0)
            if (name, of, event.get("call")) == ("failed", number, call):
                break
            if name == "compiling":
                forwards[of], functions[of] = event["forward"], event.get("of", 0)
            elif name == "ran":
                self.runs[of] += 1
            elif name == "compiled" and (forward := forwards.get(of)) is not None:
                self.backward.add(forward)
            elif name == "compiled":
                self.compiled.append(of)
        own = (number, forwards.get(number))
        begun = next((place for place, each in enumerate(self.compiled) if each in own), len(self.compiled))
        self.late.update(self.compiled[begun:])
        self.compiled = [each for each in self.compiled if each not in own]
        function = next((functions[each] for each in reversed(own) if each is not None and functions.get(each)), None)
        self.of_same_function = {each for each in self.compiled if functions[each] == function}


def _loaded(folder: Path) -> Case | None:
    if (folder / CASE).exists():
        with contextlib.suppress(UsageError):  # its own tensors were not kept
            return load(folder)
    return None


def _identity(backend: BackendReference) -> BackendReference:
    return replace(backend, dynamic=None, distribution=None, version=None, folders=())


def with_calls_ahead(case: Case, found: tuple[CapturedCallAhead, ...]) -> Case:
    """Return the Case with these calls ahead, and the imports that their graphs need."""
    scripts = [case.script, *(each.case.script for each in found)]
    script = replace(
        case.script,
        imports=tuple(dict.fromkeys(line for each in scripts for line in each.imports)),
        folders=tuple(dict.fromkeys(folder for each in scripts for folder in each.folders)),
        ops=tuple(dict.fromkeys(op for each in scripts for op in each.ops)),
    )
    late = [each.call for each in found if each.late]
    return replace(case, script=script, before=(*(each.call for each in found if not each.late), *case.before, *late))
