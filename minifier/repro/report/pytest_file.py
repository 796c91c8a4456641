"""A repro as a test for pytest, which is expected to fail until the backend is mended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from minifier.data.case.literals import literal
from minifier.data.failure import Kind
from minifier.errors import UsageError
from minifier.repro.emit.footer import NEEDED
from minifier.repro.emit.script_text import page, under
from minifier.repro.report.failure_text import title_of
from minifier.repro.report.outcome import Outcome, op_names

_TIMEOUT_SECONDS = 600
_MAX_LINE = 100  # characters


@dataclass(frozen=True, slots=True)
class TestFile:
    """The name and text of a test file, and the files that it reads from a folder beside it, by their paths there."""

    __test__ = False  # for pytest

    name: str
    text: str
    beside: Mapping[str, Path]


def test_file_of(outcome: Outcome) -> TestFile:
    """Return a test that runs the repro in an interpreter of its own, from a folder beside the test.

    Raises UsageError for a failure that no exit status shows.
    """
    repro, case = outcome.repro, outcome.minimal or outcome.case
    fingerprint = case.failure.fingerprint
    if repro is None:
        raise UsageError(f"{outcome.folder} has no repro: there is nothing to test.")
    if fingerprint.kind is Kind.SILENT_FALLBACK or fingerprint.exits_with_0:
        raise UsageError(f"{outcome.folder}: a test cannot see this failure: the repro ends with exit status 0.")
    name = _name(outcome)
    folder = f"repro_{name}"
    test = under(
        f"def test_{name}():",
        [
            f'repro = Path(__file__).with_name("{folder}") / "repro.py"',
            f"ended = subprocess.run([sys.executable, repro], timeout={_TIMEOUT_SECONDS}, check=False)",
            "assert ended.returncode == 0",
        ],
    )
    text = page([
        (0, [f'"""{_about(outcome)}"""']),
        (1, ["import subprocess", "import sys", "from pathlib import Path"]),
        (1, ["import pytest"]),
        (2, [f"{_mark(title_of(case))}\n{test}"]),
    ])  # fmt: skip
    beside = {f"{folder}/{each}": outcome.folder / each for each in ("repro.py", *repro.beside)}
    return TestFile(f"test_{name}.py", text, beside)


def _mark(reason: str) -> str:
    """Return the mark of an expected failure, in one line if it fits."""
    arguments = ["strict=True", "raises=AssertionError", f"reason={literal(reason)}"]
    line = f"@pytest.mark.xfail({', '.join(arguments)})"
    if len(line) <= _MAX_LINE:
        return line
    return "\n".join(["@pytest.mark.xfail(", *(f"    {argument}," for argument in arguments), ")"])


def _about(outcome: Outcome) -> str:
    where = f" from {outcome.case.script.name}" if outcome.case.script.name else ""
    needed = re.search(rf"^# ({NEEDED}.*)$", outcome.repro.text if outcome.repro is not None else "", re.MULTILINE)
    about = f"Reduced by minify{where}. Once the failure is gone, this test says so: then its mark can go."
    return f"{about}\n\n{needed[1]}\n" if needed is not None else about


def _name(outcome: Outcome) -> str:
    case = outcome.minimal or outcome.case
    ops = [name.rpartition(".")[2] if "." in name else name for name in op_names(case)][:3]
    words = "_".join([case.backend.name, *ops]) or "repro"
    return re.sub(r"\W+", "_", words).strip("_").lower()
