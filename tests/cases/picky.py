"""Backends that each refuse one thing of those in refused.py."""

import functools

from refused import REFUSED
from torch._dynamo import register_backend


def _refuse(gm, inputs, *, what):
    if REFUSED[what](gm, inputs):
        raise NotImplementedError(f"{what}: refused")
    return gm.forward


for _what in REFUSED:
    register_backend(functools.partial(_refuse, what=_what), name=f"picky_{_what}")
