"""Notice backends that quietly leave a graph to another compiler, or to eager; lines logged during their calls."""

from __future__ import annotations

import functools
import logging
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any

import torch

from minifier.capturing.captured import EventLog, FellBack
from minifier.data.case.literals import packages_imported
from minifier.process.logs import CallWatch, LogLine
from minifier.torch_side.torch_private.inductor import inductor_entry

Graph = torch.fx.GraphModule | None
_MAX_SHOWN = 2  # caught exceptions, and withheld log records, in one sentence


def watch_of(function: Any, imports: Sequence[str]) -> CallWatch | None:
    """Return a watch for a call of the backend, which is this function or object; None for torch's own backends.

    `imports` are the lines that import it.
    """
    packages = {*packages_imported(*imports), _module_of(function).partition(".")[0]} - {"torch", "functools", ""}
    return CallWatch(packages, inductor_entry) if packages else None


def _module_of(function: Any) -> str:
    """Return the module that defines the function or the class of a backend; empty for inductor, which is None."""
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__ if function is not None else ""
    return module if isinstance(module, str) else ""


def parts_of(gm: Graph) -> list[Any]:
    """Return the objects that make up the graph module: its nodes, what they call and read, and its modules."""
    if gm is None:
        return []
    of_nodes = [part for node in gm.graph.nodes for part in (node, node.target, node.args, node.kwargs)]
    return [*of_nodes, *gm.modules()]


def is_unchanged(compiled: Any, gm: Graph, before: list[Any]) -> bool:
    """Whether the compiled function is the graph module itself, or its method (`gm.forward`), with all its parts.

    `before` are its parts ahead of the call: most backends that return the graph module have changed it.
    """
    if gm is None or (compiled is not gm and getattr(compiled, "__self__", None) is not gm):
        return False
    return [*map(id, parts_of(gm))] == [*map(id, before)]


class _Ran(Enum):
    """What ran as a graph of torch's after the backend had caught an exception; the values say it."""

    NOTHING = ""
    PART = "ran a part of the graph with torch"
    WHOLE = "ran the graph with torch"


def _ran_with_torch(watch: CallWatch, has_caught: bool) -> _Ran:
    """Return what the backend ran with torch while it handled an exception of its own, or if it `has_caught` one.

    It was the whole graph if every other graph that ran does nothing but call modules with graphs that were run so.
    """
    graphs = [(each, is_handling) for each, is_handling in watch.forwards if isinstance(each, torch.fx.GraphModule)]
    handled = {each for each, is_handling in graphs if is_handling or has_caught}
    if not handled:
        return _Ran.NOTHING
    others = {each for each, _ in graphs} - handled
    return _Ran.WHOLE if all(_only_calls(each, handled) for each in others) else _Ran.PART


def _only_calls(gm: torch.fx.GraphModule, handled: Collection[torch.nn.Module]) -> bool:
    """Whether each op of the graph calls a module that is or has one of these, or picks from a result."""
    return all(
        (node.op == "call_module" and not set(gm.get_submodule(str(node.target)).modules()).isdisjoint(handled))
        or node.target is operator.getitem
        for node in gm.graph.nodes
        if node.op.startswith("call")
    )


def fallback(watch: CallWatch, graph: int, unchanged: bool, is_run: bool, has_caught: bool) -> FellBack | None:
    """Describe the backend's fallback in a finished call for the graph of this number; None without a fallback.

    unchanged: the backend returned the original graph. is_run: the call was of the compiled function.
    """
    caught = watch.caught
    if watch.entered and not (caught or unchanged):
        sentence = "compiled with inductor, as a whole or in parts"
        return FellBack(graph, sentence, is_whole=False, is_left=True, line=watch.first_line, is_plain=True)
    deeds = [f"caught {' and '.join(caught[:_MAX_SHOWN])}"] if caught else []
    if watch.entered:
        deeds.append("handed the graph to inductor")
    if unchanged:
        deeds.append("returned the graph as it was")
    ran = _ran_with_torch(watch, has_caught) if is_run else _Ran.NOTHING
    if ran is not _Ran.NOTHING:
        deeds.append(ran.value)
    if not deeds:
        return None
    logged = f" (it would have logged: {'; '.join(watch.logged[:_MAX_SHOWN])})" if watch.logged else ""
    is_whole = watch.entered or unchanged or ran is _Ran.WHOLE
    return FellBack(graph, " and ".join(deeds) + logged, is_whole, is_whole or ran is _Ran.PART, watch.first_line)


def watched(
    watch: CallWatch | None, number: int, call: Callable[[], Any], gm: Graph = None, has_caught: bool = False
) -> tuple[Any, FellBack | None]:
    """Make a call for the graph of this number under the watch, if any; return its result, and the fallback.

    `gm` is the graph, if the call compiles it. `has_caught`: the backend caught an exception as it compiled what runs.
    """
    if watch is None:
        return call(), None
    before = parts_of(gm)
    with watch:
        result = call()
    return result, fallback(watch, number, is_unchanged(result, gm, before), gm is None, has_caught)


_MAX_LINES = 100  # distinct pairs of graph and line, for one script


class LoggedLines:
    """Writes the lines of backend calls to the event log, and matches them against the pattern of --match-log."""

    def __init__(self, log: EventLog, pattern: str | None) -> None:
        self._log = log
        self._pattern = re.compile(pattern) if pattern is not None else None
        self._seen: set[tuple[int, str]] = set()

    def matches(self, logged: LogLine, number: int) -> bool:
        """Write a line to the event log, and tell whether it matches. A call for graph `number` logged it."""
        line = logged.line
        if (number, line) not in self._seen and len(self._seen) < _MAX_LINES:
            self._seen.add((number, line))
            self._log.write("logged", number=number, logger=logged.logger, level=logged.level, message=logged.message)
        return self._pattern is not None and self._pattern.search(line) is not None


def warnings_logged(logged: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the distinct lines of level WARNING and above among these "logged" events."""
    warnings = [e for e in logged if e["level"] >= logging.WARNING]
    return tuple(dict.fromkeys(LogLine(e["logger"], e["level"], e["message"]).line for e in warnings))
