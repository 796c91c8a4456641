"""The key of a candidate: a digest of all that its probe depends on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection
from typing import Any

from minifier.case import Case
from minifier.case.serial import pack

# Fields that are the same for all candidates of a Case; those, and what is told apart or asked of no probe.
_SAME = {"failure", "script", "tensors", "measure", "definitions"}
_BESIDE = {"graph", "inputs", "rate", "patience", "needs", "any_graph", *_SAME}
_MAX_TEXTS = 20_000


def digest(text: str) -> str:
    """Return sixteen hexadecimal digits that identify a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Keys:
    """Makes the keys of candidates. They share most nodes and inputs, whose text is made once."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[object, str]] = {}

    def of(self, case: Case, ignored: Collection[str] = ()) -> str:
        """Return the candidate's key. `ignored` are ops whose wrong values do not count."""
        rest = {f.name: pack(getattr(case, f.name)) for f in dataclasses.fields(case) if f.name not in _BESIDE}
        held = [pack(case.graph.attributes), pack(case.graph.modules), rest, sorted(ignored)]
        texts = [self._text(item) for item in (*case.graph.nodes, *case.inputs)]
        return digest("\n".join([*texts, json.dumps(held)]))

    def _text(self, item: Any) -> str:
        known = self._texts.get(id(item))
        if known is not None and known[0] is item:
            return known[1]
        if len(self._texts) >= _MAX_TEXTS:
            self._texts.clear()
        text = json.dumps(pack(item))
        self._texts[id(item)] = (item, text)  # which keeps the id from being used again
        return text
