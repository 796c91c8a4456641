"""What works on this machine with this torch, and what does not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from minifier.data.torch_names import NEWEST_TORCH, OLDEST_TORCH, shown, why_untested
from minifier.errors import UsageError
from minifier.flow.prepare import import_torch
from minifier.process.machine import available, cores
from minifier.torch_side.interfaces import Interface, InterfaceState
from minifier.torch_side.torch_private.declared import INTERFACES

_PACKAGES = {"ray": "`minify hunt --cluster`", "triton": "graphs that launch Triton kernels"}
_PROGRAMS = {os.environ.get("CXX", "g++"): "inductor on CPU"}


@dataclass(frozen=True)
class InterfaceRow:
    """An interface in this torch; `loses` is empty where it works."""

    interface: str
    state: str
    loses: str = ""


@dataclass(frozen=True)
class Findings:
    """All that `examine` finds out. `problem` is why nothing works; empty if something does."""

    torch: str
    tested: str
    python: str
    backends: list[str]
    extras: dict[str, str]
    limits: dict[str, str]
    interfaces: list[InterfaceRow]
    problem: str = ""


def examine() -> Findings:
    """Look at this machine, this torch, and the disk of the current folder. Imports what the tool would import."""
    problem, backends = "", []
    try:
        import_torch()
        from minifier.torch_side.torch_private.registrations import backend_table

        backends = [name for name, _, _ in backend_table()]
    except UsageError as error:
        problem = str(error)
    why = why_untested(torch.__version__)
    return Findings(
        torch=torch.__version__,
        tested=f"not tested: {why}" if why else f"tested: {shown(OLDEST_TORCH)} to {shown(NEWEST_TORCH)}",
        python=f"{platform.python_version()}, {platform.platform()}",
        backends=backends,
        extras=_extras(),
        limits=_limits(),
        interfaces=list(map(_row, INTERFACES)),
        problem=problem,
    )


def _extras() -> dict[str, str]:
    found = {}
    for name, use in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = f"missing: {use}"
    return found | {name: shutil.which(name) or f"missing: {use}" for name, use in _PROGRAMS.items()}


def _limits() -> dict[str, str]:
    return {
        "processes": _processes(),
        "cores": str(cores()),
        "memory": f"{available() / 2**30:.1f} GiB available",
        "disk": f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB free here",
    }


def _processes() -> str:
    """Tell whether a process can be supervised as probes are."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return f"no pidfd ({error}): probes cannot be supervised"
    return "pidfd works"


def _row(interface: Interface) -> InterfaceRow:
    state = interface.state(load=True)
    return InterfaceRow(interface.place, state.value, "" if state is InterfaceState.WORKS else interface.loses)
