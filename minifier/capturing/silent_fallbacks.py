"""Notice backends that quietly leave a graph to another compiler, or to eager."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch

from minifier.case import BackendReference
from minifier.process.caught import CallWatch
from minifier.torch_private import asked_backend, inductor_entry

_MAX_SHOWN = 2  # caught exceptions, and withheld log records, in one sentence


@dataclass(frozen=True, slots=True)
class SilentFallback:
    """A backend's fallback, as a sentence. `is_whole`: inductor or eager got the whole graph."""

    sentence: str
    is_whole: bool


def watch_of(compiler: Any, backend: BackendReference) -> CallWatch | None:
    """Return a watch for a call of the backend; None for torch's own backends."""
    modules = [line.split()[1] for line in backend.imports] + [_module_of(compiler)]
    packages = {module.partition(".")[0] for module in modules} - {"torch", "functools", ""}
    return CallWatch(packages, inductor_entry) if packages else None


def _module_of(compiler: Any) -> str:
    """Return the module that defines the function or the class of a backend; empty for inductor."""
    compiler = asked_backend(compiler).function
    if compiler is None:
        return ""
    while isinstance(compiler, functools.partial):
        compiler = compiler.func
    module = getattr(compiler, "__module__", None) or type(compiler).__module__
    return module if isinstance(module, str) else ""


def parts_of(gm: torch.fx.GraphModule | None) -> list[Any]:
    """Return the objects that make up the graph module: its nodes, what they call and read, and its modules."""
    if gm is None:
        return []
    of_nodes = [part for node in gm.graph.nodes for part in (node, node.target, node.args, node.kwargs)]
    return [*of_nodes, *gm.modules()]


def is_unchanged(compiled: Any, gm: torch.fx.GraphModule | None, before: list[Any]) -> bool:
    """Whether the compiled function is the graph module itself, or its method (`gm.forward`), with all its parts.

    `before` are its parts ahead of the call: most backends that return the graph module have changed it.
    """
    if gm is None or (compiled is not gm and getattr(compiled, "__self__", None) is not gm):
        return False
    after = parts_of(gm)
    return len(after) == len(before) and all(map(operator.is_, after, before))


def fallback(watch: CallWatch, unchanged: bool) -> SilentFallback | None:
    """Describe the backend's fallback in a finished call; None without a fallback.

    unchanged: the backend returned the original graph.
    """
    caught = watch.caught
    deeds = [f"caught {' and '.join(caught[:_MAX_SHOWN])}"] if caught else []
    if watch.entered:
        deeds.append("handed the graph to inductor")
    if unchanged:
        deeds.append("returned the graph as it was")
    if not deeds:
        return None
    logged = f" (it would have logged: {'; '.join(watch.logged[:_MAX_SHOWN])})" if watch.logged else ""
    return SilentFallback(" and ".join(deeds) + logged, watch.entered or unchanged)
