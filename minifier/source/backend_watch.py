"""Tell which of the script's own code its backends consist of, from the process that runs the script.

A reduction must not change the backend under test. A backend may be a function, a closure, an object, a compiler behind
another backend, a pass of a configuration, or code in the place of a function of torch. So its calls are watched.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.failure.frames import STDLIB_FOLDERS
from minifier.fx.script_definitions import FILE
from minifier.probe.life import tell
from minifier.source.own_code import code_text, described, digest, nested_codes
from minifier.torch_private import AskedBackend, as_dynamo_takes, asked_backend, observe_backend_calls

TOLD = "backends"  # the key of what a child tells


class BackendWatch:
    """Watches the backend calls of this process, and tells its parent about the script's own code in them.

    `folders` hold modules that belong to the script. With `runs`, each own function that runs within a backend's call
    is told too; this slows the calls down.
    """

    def __init__(self, folders: Sequence[str], runs: bool) -> None:
        self._folders = tuple(os.path.join(folder, "") for folder in folders)
        self._runs = runs
        self._backends: dict[tuple[str, str, str], None] = {}  # name, digests of the code, and of code and data
        self._noted: dict[int, object] = {}  # by identity: backends, which have to live
        self._reached: dict[str, None] = {}  # digests of the code in these backends
        self._ran: dict[str, None] = {}  # digests of the code that ran
        self._places: dict[tuple[str, int], None] = {}  # (name, first line) of the script's definitions among both
        self._checked: set[types.CodeType] = set()

    def start(self) -> None:
        """Watch the backend calls of this process from now on."""
        observe_backend_calls(self._call)

    def is_own(self, file: str) -> bool:
        """Whether a file is the script, or a module in its folders."""
        if file == FILE:
            return True
        return file.startswith(self._folders) and "-packages" not in file and not file.startswith(STDLIB_FOLDERS)

    def _call(
        self, compiler_fn: Any, _gm: torch.fx.GraphModule, _inputs: Sequence[Any], call: Callable[[], Any]
    ) -> Callable[..., Any]:
        asked = asked_backend(compiler_fn)
        backend = compiler_fn if asked.function is None else asked.function
        if id(backend) not in self._noted:  # as it is ahead of its first call, which may change its data
            self._noted[id(backend)] = backend
            self._note(_name(asked), (asked.function, asked.options))
        with _Profiled(self._entered if self._runs else None):
            compiled: Callable[..., Any] = call()
        return self._watched(compiled) if self._runs else compiled

    def _watched(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            with _Profiled(self._entered):
                return compiled(*args)

        return run

    def _note(self, name: str, parts: tuple[Any, ...]) -> None:
        without_data, with_data, codes = described(parts, self.is_own)
        self._backends[name, digest(without_data), digest(with_data)] = None
        for code in codes:
            self._reached.update((digest(code_text(each)), None) for each in nested_codes(code))
            self._add_place(code)
        self._tell()

    def _entered(self, code: types.CodeType) -> None:
        if code in self._checked:
            return
        self._checked.add(code)
        if self.is_own(code.co_filename):
            self._ran[digest(code_text(code))] = None
            self._add_place(code)
            self._tell()

    def _add_place(self, code: types.CodeType) -> None:
        if code.co_filename == FILE:
            self._places[code.co_name, code.co_firstlineno] = None

    def _tell(self) -> None:
        """Tell all that is known, for this process may die at its next step."""
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
        told = {
            "backends": list(self._backends),
            "reached": list(self._reached),
            "ran": list(self._ran),
            "places": list(self._places),
            "files": sorted(file for file in files if file != FILE and self.is_own(file)),
        }
        tell(**{TOLD: told})


class GraphsInEager:
    """Answers each backend call of this process with the graph itself: no backend compiles anything."""

    def start(self) -> None:
        """Answer all backend calls of this process from now on."""
        observe_backend_calls(lambda _compiler, gm, _inputs, _call: as_dynamo_takes(gm.forward))


def _name(asked: AskedBackend) -> str:
    """Return the name of a function, or of an object's class; that of inductor, which is no object."""
    if asked.function is None:
        return asked.name
    return getattr(asked.function, "__name__", None) or type(asked.function).__name__


class _Profiled:
    """Calls `entered`, if any, with the code of each Python function that this thread calls in the block."""

    def __init__(self, entered: Callable[[types.CodeType], None] | None) -> None:
        self._entered = entered

    def __enter__(self) -> None:
        self._before = sys.getprofile()
        if self._entered is not None:
            sys.setprofile(self._profile)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _profile(self, frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and self._entered is not None:
            self._entered(frame.f_code)
