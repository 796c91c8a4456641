"""What an exception itself says about the ops it is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from minifier.case import Graph

_INNERMOST = 4  # frames of the traceback that are looked into


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Innermost frames first, at most _INNERMOST."""
    found = []
    step = error.__traceback__
    while step is not None:
        found.append(step.tb_frame)
        step = step.tb_next
    yield from reversed(found[-_INNERMOST:])


def _node_names(value: Any) -> Iterator[str]:
    if isinstance(value, torch.fx.Node):
        yield value.name
    elif type(value) in (list, tuple) and len(value) <= 8:
        for item in value:
            yield from _node_names(item)


def hints(error: BaseException, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Groups of ops that the error points at, best first: nodes held by the innermost frames, nodes the
    message names, ops whose target the message names, ops whose target a local string names."""
    ops = {node.name: node for node in graph.ops}
    targets: dict[str, list[str]] = {}
    for node in graph.ops:
        targets.setdefault(node.short_target, []).append(node.name)
    held: list[str] = []
    strings: list[str] = []
    for frame in _frames(error):
        if frame.f_globals.get("__name__", "").startswith("minifier."):
            continue
        for value in list(frame.f_locals.values()):
            held += _node_names(value)
            if isinstance(value, str) and len(value) < 80:
                strings += re.findall(r"\w+", value)
    try:
        words = re.findall(r"\w+", str(error))
    except Exception:  # noqa: BLE001 - a faulty __str__ of the user's exception gives no hint, that is all
        words = []
    groups = [
        [name for name in held if name in ops],
        [word for word in words if word in ops and word not in targets],
        [name for word in dict.fromkeys(words) for name in targets.get(word, ())],
        [name for word in dict.fromkeys(strings) for name in targets.get(word, ())],
    ]
    return tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups if group))
