"""torch's own minifier on a script, used as its documentation says, with help where it needs some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from observing import Ran, Shown, elements_in_repro, error_in, imports_of, lines_in, ops_in_repro, run_python

_INVALID = "InvalidBackend"


@dataclass(frozen=True, slots=True)
class TorchRun:
    """What came of it. `seconds` is the script under the minifier's variables, and the launcher; `queries`
    is a lower bound where it was stopped; `helped` says that imports were added to the launcher by hand.
    `repro` says how the script it wrote does in a fresh interpreter."""

    seconds: float
    ended: str
    queries: int | None = None
    at_least: bool = False
    ops: int | None = None
    helped: bool = False
    repro: str = ""
    elements: int | None = None
    lines: int | None = None
    mebibytes: float = 0.0


def run_torch_minifier(
    script: Path, arguments: Sequence[str], folder: Path, limit: float, sought: Shown, after: str
) -> TorchRun:
    """Runs the script with the minifier on, then the launcher that it writes, then the repro. `after` is what its
    documentation says for the backend: `dynamo`, or `aot` for inductor."""
    variables = {
        "TORCHDYNAMO_REPRO_AFTER": after,
        "TORCHDYNAMO_REPRO_LEVEL": "2",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
    }
    first = run_python([script, *arguments], folder, limit, variables=variables)
    if first.unfinished:
        return TorchRun(first.seconds, f"the script was unfinished in {limit:.0f} s")
    launchers = sorted(folder.glob("torch_compile_debug/*/minifier/minifier_launcher.py"))
    if not launchers:
        return TorchRun(first.seconds, f"wrote no launcher; ended with {error_in(first.output)}")
    launcher, helped = launchers[0], False
    path = [script.parent]
    second = run_python([launcher], folder, limit, path)
    if _INVALID in second.output:
        launcher, helped = with_imports(launcher, script), True
        second = run_python([launcher], folder, limit, path)
    return _read(script, folder, first, second, limit, helped, sought)


def with_imports(program: Path, script: Path) -> Path:
    """A copy of a program of torch's with the failing script's imports before its first line."""
    copy = program.with_name(f"helped_{program.name}")
    copy.write_text("\n".join((*imports_of(script), program.read_text(encoding="utf-8"))), encoding="utf-8")
    return copy


def queries_in(log: str) -> tuple[int | None, bool]:
    """(queries made, whether there were more): it tells at its end; until then, one line for each strategy
    that it tries, which takes one query or more."""
    told = re.search(r"^Made (\d+) queries", log, re.MULTILINE)
    if told:
        return int(told[1]), False
    tried = len(re.findall(r"^Strategy: ", log, re.MULTILINE))
    return (tried, True) if tried else (None, False)


def _read(script: Path, folder: Path, first: Ran, second: Ran, limit: float, helped: bool, sought: Shown) -> TorchRun:
    queries, more = queries_in(second.output)
    repro = folder / "repro.py"
    text = repro.read_text(encoding="utf-8") if repro.exists() else ""
    ops = ops_in_repro(text) if text else None
    if second.unfinished:
        ended = f"unfinished in {limit:.0f} s"
    elif queries is None or more:
        ended = f"launcher failed: {error_in(second.output)}"
    else:
        ended = "finished"
    return TorchRun(
        first.seconds + second.seconds,
        ended,
        queries,
        more,
        ops,
        helped,
        _repro_shows(repro, script, limit, sought) if repro.exists() else "none written",
        elements_in_repro(text),
        lines_in(text) if text else None,
        max(first.mebibytes, second.mebibytes),
    )


def _repro_shows(repro: Path, script: Path, limit: float, sought: Shown) -> str:
    """In words: the same error or not, with or without help."""
    alone = run_python([repro], repro.parent, limit, [script.parent])
    if _INVALID not in alone.output:
        return told(alone, sought)
    helped = run_python([with_imports(repro, script)], repro.parent, limit, [script.parent])
    return f"{told(helped, sought)}, import added"


def told(ran: Ran, sought: Shown) -> str:
    """Whether a script showed the error sought, in words for the table."""
    seen = error_in(ran.output)
    if seen == sought:
        return "yes"
    if ran.unfinished:
        return "no: it does not end"
    return f"no: {seen}" if seen else f"no: exit status {ran.status}"
