"""The sources of a hunt's programs: this tool's own, those of other distributions, and a function of the user's."""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from minifier.errors import UsageError
from minifier.flow.embed.function import copied
from minifier.flow.hunt.compositions import compositions
from minifier.flow.hunt.databases import OPERATORS, modules, operators
from minifier.flow.hunt.models import models
from minifier.flow.hunt.programs import Call, Program, ProgramFilter, Source, call_of
from minifier.flow.hunt.scripts import SCRIPTS, scripts

ENTRY_POINTS = "minify_hunt_sources"
"""Entry points of this group are sources: functions that yield (name, callable, args, kwargs)."""

_OWN: dict[str, tuple[str, Source]] = {
    OPERATORS: ("torch's operators, on samples of torch's own tests", operators),
    "compose": ("random programs of torch's operators, one after the other until the time is up", compositions),
    "models": ("the architectures of transformers in tiny configurations", models),
    "modules": ("the modules of torch.nn, on samples of torch's own tests, in training and in evaluation", modules),
}


def known_sources() -> list[tuple[str, str]]:
    """Return the name of each source that is installed here, with a sentence or its origin."""
    own = [(name, sentence) for name, (sentence, _) in _OWN.items()]
    own.append((f"{SCRIPTS} DIR", "the scripts of a folder, each as `minify run` runs it"))
    return own + [(point.name, point.value) for point in entry_points(group=ENTRY_POINTS)]


def source(name: str) -> Source:
    """Return a source: one of this tool's own, of an entry point, the scripts of a folder (`programs DIR`), or
    MODULE:NAME, which is imported.

    Raises UsageError for one that is not known or cannot be imported.
    """
    if name in _OWN:
        return _OWN[name][1]
    kind, _, folder = name.partition(" ")
    if kind == SCRIPTS:
        return functools.partial(scripts, folder)
    module, _, attribute = name.partition(":")
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points and not attribute:
        names = ", ".join(known for known, _ in known_sources())
        raise UsageError(f"there is no source {name}: give MODULE:NAME for a function of yours, or one of {names}.")
    try:
        found = points[name].load() if name in points else getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise UsageError(f"the source {name} cannot be imported: {type(error).__name__}: {error}") from error
    return functools.partial(_of_tuples, found)


Tuples = Callable[[], Iterator[tuple[str, Callable[..., Any], Sequence[Any], Mapping[str, Any]]]]


def _of_tuples(function: Tuples, wanted: ProgramFilter) -> Iterator[Program]:
    counts: Counter[str] = Counter()
    for name, *given in function():
        if wanted.has(name):
            yield Program(name, "", counts[name], functools.partial(_copied_call, name, given, wanted.training))
            counts[name] += 1


def _copied_call(name: str, given: Sequence[Any], training: bool) -> Call:
    call = call_of(name, *copied(list(given), {}))
    for tensor in call.tensors if training else ():
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.requires_grad_()
    return call
