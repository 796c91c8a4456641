"""Fake kernels, which give the metadata of an operator's results: what they promise, and what the operator returns."""

from __future__ import annotations

import re
from collections.abc import Callable

from minifier.torch_side.torch_private import declared

_OF_TORCH = frozenset(("aten", "prim", "prims"))  # namespaces
_MISMATCH = re.compile(r"output of (\S+) on FakeTensor and concrete Tensors, found (?:mismatched tensor metadata)?(.*)")


def wrong_fake_kernel(call: Callable[[], object]) -> tuple[str, str]:
    """Return the first operator of the call whose fake kernel gives other metadata than its result has, and how.

    Both are "" if none is seen. torch's own operators are not looked at.
    """
    mode = declared.CROSS_REFERENCE.find()
    if mode is None:
        return "", ""
    try:
        with mode(lambda op: getattr(op, "namespace", "") in _OF_TORCH):
            call()
    except Exception as error:  # noqa: BLE001 - of the user's operators, or what is looked for
        if found := _MISMATCH.search(str(error)):
            return found[1].removesuffix(".default"), found[2].lstrip(": ")
    return "", ""
