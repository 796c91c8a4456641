"""The key by which reports of the same failure are found."""

from __future__ import annotations

import hashlib
import json
import re

from minifier.case import Case, TensorInput
from minifier.failure import Fingerprint
from minifier.failure.normalise import normalise


def duplicate_key(case: Case) -> str:
    """Return twelve hexadecimal digits, equal for equal failures of a backend.

    Equal are the backend's distribution, the stage and kind of the failure, the ops and the dtypes of what they read,
    the raising function, what native code wrote, and the normalised message.
    """
    fingerprint = case.failure.fingerprint
    raising = fingerprint.raising
    identity = [
        case.backend.distribution or case.backend.name,
        fingerprint.stage.value,
        fingerprint.kind.value,
        fingerprint.types,
        [raising.module, raising.function] if raising is not None else None,
        fingerprint.native,
        words_of(fingerprint, "<node>"),
        op_names(case),
        sorted({given.meta.dtype for given in case.inputs if isinstance(given, TensorInput)}),
    ]
    return hashlib.blake2b(json.dumps(identity).encode(), digest_size=6).hexdigest()


def op_names(case: Case) -> list[str]:
    """Return the names of the graph's ops, each once."""
    return sorted({node.short_target for node in case.graph.ops})


def words_of(fingerprint: Fingerprint, node: str) -> str:
    """Return the normalised message with `node` in the place of node names, which a user chose."""
    text = normalise(fingerprint.message)
    for name in fingerprint.names:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", node, text)
    return " ".join(text.split())
