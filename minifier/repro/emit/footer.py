"""The last comment of a repro: its failure, versions, and what it takes."""

from __future__ import annotations

import difflib
import platform
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from minifier.capturing.slicing.cases import definitions_left
from minifier.data.case import BackendReference, Case
from minifier.data.case.literals import imports_of, imports_of_config, packages_imported
from minifier.data.failure import Kind
from minifier.data.failure.normalise import headline, printable


def _failure_line(case: Case, names: Mapping[str, str]) -> str:
    """Return a line that describes the failure, with the script's names for inputs."""
    if case.failure.fingerprint.kind is Kind.SILENT_FALLBACK:
        return f"Nothing is raised: the failure is this line of the log. {printable(headline(case.failure.message))}"
    return printable(case.failure.named(names).line)


def versions(backend: BackendReference) -> str:
    """Return a line with the versions of torch, the backend's distribution if known, Python and the system."""
    import torch

    named = [f"{backend.distribution} {backend.version}"] if backend.distribution not in (None, "torch") else []
    python, system = f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"
    return ", ".join([f"torch {torch.__version__}", *named, python, system])


def footer(case: Case, names: Mapping[str, str], variables: Collection[str]) -> tuple[str, ...]:
    """Return the lines of the repro's last comment: its failure, versions and needs."""
    backend = case.backend
    lines = [_failure_line(case, names), versions(backend)]
    if case.others:
        lines.append("It takes the calls of the backend ahead of the last one, which passes alone.")
    if case.pauses:
        lines.append("It takes the pause between the calls: without it the failure does not show each time.")
    if case.any_graph:
        lines.append("The backend fails on any graph, also on one without ops.")
    lines += filter(None, [sentence_of_needs(case, names)])
    if case.failure.fingerprint.any_message:
        lines.append("The message varies; the exception's type and the function that raises it stay.")
    if forms := case.failure.fingerprint.forms:
        lines.append(f"The same program also shows {'; '.join(form.sentence() for form in forms)}.")
    if case.rate < 1:
        lines.append(f"Shows in about {_rate_in_words(case.rate)} attempts.")
    lines += needed_folder(_modules(case), case.folders)
    if variables:
        lines.append(f"Needs {', '.join(variables)} in its environment, as where this was made.")
    return tuple(lines)


def sentence_of_needs(case: Case, names: Mapping[str, str], mark: Callable[[str], str] = str) -> str:
    """Say what the failure takes besides its ops, as measured; "" if nothing was."""
    return f"It takes {' and '.join(with_variables(need, names, mark) for need in case.needs)}." if case.needs else ""


def with_variables(need: str, names: Mapping[str, str], mark: Callable[[str], str] = str) -> str:
    """Return a need of a Case with these names in the place of inputs' nodes, which it has in backticks."""
    return re.sub(r"`(\w+)`", lambda match: mark(names.get(match[1], match[1])), need)


def _rate_in_words(rate: float) -> str:
    """Return "3 of 10"; for small rates of 100 or 1000."""
    for attempts in (10, 100, 1000):
        if round(rate * attempts) >= 1:
            return f"{min(round(rate * attempts), attempts - 1)} of {attempts}"
    return "1 of 1000"


def imports_of_operators(case: Case) -> tuple[str, ...]:
    """Return the imports that register custom operators, if the graph still calls any `torch.ops` function."""
    return case.script.imports if any(node.target.startswith("torch.ops.") for node in case.graph.ops) else ()


NEEDED = "Needs the folder with"


def needed_folder(modules: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Return a line that names those of the top-level modules that lie in the script's own folders, if any does."""
    paths = [Path(folder) for folder in folders]
    own = [top for top in sorted(modules) if any((f / top).exists() or (f / f"{top}.py").exists() for f in paths)]
    return [f"{NEEDED} {', '.join(own)} on PYTHONPATH."] if own else []


def _modules(case: Case) -> set[str]:
    """Return the top-level modules that the repro imports."""
    backend = case.backend
    lines = [*backend.ahead, *backend.imports, *imports_of_operators(case)]
    lines += [*imports_of(backend.options), *imports_of_config(case.state.config)]
    targets = {node.target.partition(":")[0].partition(".")[0] for node in case.graph.ops if ":" in node.target}
    return targets | packages_imported(*lines, definitions_left(case))


def difference(text: str, other: str) -> str:
    """Return a unified diff from this script to the other, without their footers."""
    before, after = _without_footer(text), _without_footer(other)
    return "\n".join(difflib.unified_diff(before, after, "the repro", "what passes", lineterm="", n=1))


def _without_footer(text: str) -> list[str]:
    lines = text.rstrip().splitlines()
    while lines and (not lines[-1] or lines[-1].startswith("#")):
        lines.pop()
    return lines
