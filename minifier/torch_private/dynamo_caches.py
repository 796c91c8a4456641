"""Dynamo's caches of compiled code, and its memory of sizes, restored after code was compiled for a look alone."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from minifier.interfaces.declared import stands_on

_LOSES = "Dynamo's caches as they were before `minifier.minify` and `minifier.check`"
_CODES = stands_on("torch._dynamo.convert_frame:input_codes", loses=_LOSES)
_ENTRIES = stands_on("torch._dynamo.eval_frame:_debug_get_cache_entry_list", loses=_LOSES, parameters=("code",))
_DELETED = stands_on("torch._dynamo.guards:DeletedGuardManagerWrapper", loses=_LOSES)
_COMPILER = stands_on("torch._C._dynamo.eval_frame:_CacheEntry.backend", loses=_LOSES)
_RESET = stands_on("torch._dynamo.eval_frame:reset_code", loses=_LOSES)
_REMOVAL = stands_on("torch._C._dynamo.eval_frame:_ExtraState.invalidate", loses=_LOSES)
_SIZES = stands_on("torch._dynamo.pgo:_CODE_STATE", loses=_LOSES)


@contextlib.contextmanager
def dynamo_caches_restored(is_ours: Callable[[Any], bool]) -> Iterator[None]:
    """Afterwards, remove the compiled code whose compiler function `is_ours` accepts, and forget the seen sizes.

    Code that was compiled by other backends stays, so that nothing of the user's is compiled again. Sizes that Dynamo
    has seen decide which sizes it makes dynamic later.
    """
    sizes = copy.deepcopy(_SIZES.find())
    try:
        yield
    finally:
        if _SIZES.is_here():
            _SIZES.assign(sizes)
        for code in _compiled_codes():
            _remove_from(code, is_ours)


def isolated_compile(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """Return the function under torch.compile, with limits of recompilation of its own where this torch can do that."""
    can_isolate = "isolate_recompiles" in inspect.signature(torch.compile).parameters
    keywords: dict[str, Any] = {"isolate_recompiles": True} if can_isolate else {}
    compiled: Callable[..., Any] = torch.compile(function, backend=backend, **keywords)
    return compiled


def compiled_entries(code: CodeType) -> int:
    """Return how many compiled codes Dynamo's cache has for this code, without removed entries."""
    return len(_entries_of(code))


def _compiled_codes() -> list[CodeType]:
    codes = _CODES.find()
    references = [] if codes is None else _CODES.read(lambda: list(codes.seen), [])
    return [code for reference in references if (code := reference()) is not None]


def _entries_of(code: CodeType) -> list[Any]:
    entries = _ENTRIES.find()
    return [] if entries is None else [entry for entry in entries(code) if _COMPILER.of(entry) is not None]


def _remove_from(code: CodeType, is_ours: Callable[[Any], bool]) -> None:
    """Remove our entries of the cache. Without other entries, forget the code altogether.

    Next to other entries, an entry is removed as Dynamo does it when an object dies that the entry's guards check: it
    stays, without its code.
    """
    entries = _entries_of(code)
    ours = [entry for entry in entries if is_ours(_COMPILER.of(entry))]
    reset, deleted = _RESET.find(), _DELETED.find()
    if ours and len(ours) == len(entries) and reset is not None:
        reset(code)
    elif ours and deleted is not None:
        reason = deleted("compiled by minifier for a look alone")
        for entry in ours:
            _REMOVAL.read(functools.partial(_invalidate, entry, reason))


def _invalidate(entry: Any, reason: Any) -> None:
    entry.guard_manager.extra_state.invalidate(entry, reason)
