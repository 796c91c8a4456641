"""What works on this machine with this torch, and what does not."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from minifier.data.torch_names import NEWEST_TORCH, OLDEST_TORCH, shown, why_untested
from minifier.errors import UsageError
from minifier.flow.prepare import import_torch
from minifier.process.machine import available, cores
from minifier.torch_side import interfaces
from minifier.torch_side.interfaces import EVERYTHING, Interface, InterfaceState

_PACKAGES = {"ray": "`--cluster`, `--workers`", "triton": "graphs that launch Triton kernels"}
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


def examine(folder: Path) -> Findings:
    """Look at this machine, this torch, and the disk of a folder. Imports what the tool would import."""
    problem, backends = "", []
    try:
        import_torch()
        from minifier.torch_side.torch_private import backend_table

        backends = [name for name, _, _ in backend_table()]
    except UsageError as error:
        problem = str(error)
    return Findings(
        torch=torch.__version__,
        tested=_tested(),
        python=f"{platform.python_version()}, {platform.platform()}",
        backends=backends,
        extras=_extras(),
        limits=_limits(folder),
        interfaces=[*map(_row, interfaces.interfaces()), *imported(), *_attributes()],
        problem=problem,
    )


def _tested() -> str:
    why = why_untested(torch.__version__)
    return f"not tested: {why}" if why else f"tested: {shown(OLDEST_TORCH)} to {shown(NEWEST_TORCH)}"


def _extras() -> dict[str, str]:
    found = {}
    for name, use in _PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = f"missing: {use}"
    return found | {name: shutil.which(name) or f"missing: {use}" for name, use in _PROGRAMS.items()}


def _limits(folder: Path) -> dict[str, str]:
    return {
        "processes": _processes(),
        "cores": str(cores()),
        "memory": f"{available() / 2**30:.1f} GiB available",
        "disk": f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB free in {folder}",
        "temporary folder": f"{shutil.disk_usage(tempfile.gettempdir()).free / 2**30:.1f} GiB free",
    }


def _processes() -> str:
    """Fork a child, and wait for it as for a probe."""
    try:
        pid = os.fork()
    except OSError as error:
        return f"no fork ({error}): nothing can be probed"
    if pid == 0:
        os._exit(0)
    try:
        descriptor = os.pidfd_open(pid)
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
        os.close(descriptor)
    except (AttributeError, OSError) as error:
        return f"no pidfd ({error}): probes cannot be supervised"
    finally:
        os.waitpid(pid, 0)
    return "fork and pidfd work"


def _row(interface: Interface) -> InterfaceRow:
    state = interface.state(load=True)
    return InterfaceRow(interface.place, state.value, "" if state is InterfaceState.WORKS else interface.loses)


def _sources() -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the tree of each file of `torch_private`, without importing them."""
    for file in sorted(Path(interfaces.__file__).with_name("torch_private").glob("*.py")):
        yield file.name, ast.parse(file.read_text(encoding="utf-8"))


def _places(tree: ast.Module) -> dict[str, str]:
    """Return where each name of a file comes from that it imports out of torch's modules."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    of_torch = (node for node in imports if (node.module or "").partition(".")[0] == "torch")
    return {alias.asname or alias.name: f"{node.module}:{alias.name}" for node in of_torch for alias in node.names}


def imported() -> list[InterfaceRow]:
    """Return each name that `torch_private` imports from torch when it is loaded: without it nothing works."""
    names = {place for _, tree in _sources() for place in _places(tree).values()}
    return [_row(Interface((name,), EVERYTHING)) for name in sorted(names)]


def _attributes() -> list[InterfaceRow]:
    """Return each attribute that `torch_private` reads of these names, and each private one of torch's modules."""
    users: dict[str, str] = {}
    for file, tree in _sources():
        roots = {"torch": "torch:", **{name: f"{place}." for name, place in _places(tree).items()}}
        for node in ast.walk(tree):
            root, _, path = ast.unparse(node).partition(".") if isinstance(node, ast.Attribute) else ("", "", "")
            is_name = root in roots and all(map(str.isidentifier, path.split(".")))
            if is_name and (root != "torch" or path.startswith("_") or "._" in path):
                users[roots[root] + path] = file
    known = {place for interface in interfaces.interfaces() for place in interface.places}
    rows = [Interface((name,), f"what {file} does") for name, file in sorted(users.items()) if name not in known]
    return list(map(_row, rows))
