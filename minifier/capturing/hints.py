"""Guess which ops an exception is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from minifier.case import Graph

_MAX_FRAMES = 4  # innermost frames whose locals are searched


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the innermost frames, at most _MAX_FRAMES, from the inside out."""
    frames = []
    step = error.__traceback__
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
    yield from reversed(frames[-_MAX_FRAMES:])


def _node_names(value: Any) -> Iterator[str]:
    if isinstance(value, torch.fx.Node):
        yield value.name
    elif type(value) in (list, tuple) and len(value) <= 8:
        for item in value:
            yield from _node_names(item)


def hints(error: BaseException, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Return groups of ops that the error points at, best first.

    These are nodes in the locals of the innermost frames, nodes named in the message, ops whose target is named in the
    message, and ops whose target is named in a local string.
    """
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
    except Exception:  # noqa: BLE001 - a faulty __str__ of the user's exception only gives no hint
        words = []
    groups = [
        [name for name in held if name in ops],
        [word for word in words if word in ops and word not in targets],
        [name for word in dict.fromkeys(words) for name in targets.get(word, ())],
        [name for word in dict.fromkeys(strings) for name in targets.get(word, ())],
    ]
    return tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups if group))
