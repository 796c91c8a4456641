"""A repro as a test for pytest, which is expected to fail until the backend is mended."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minifier.data.case.literals import literal
from minifier.data.failure import Kind
from minifier.errors import UsageError
from minifier.repro.emit.footer import NEEDED
from minifier.repro.emit.script_text import blank_lines_above, page, sorted_imports, statements_of, under
from minifier.repro.report.failure_text import title_of
from minifier.repro.report.outcome import Outcome, op_names

_IN_PROCESS = (Kind.EXCEPTION, Kind.WRONG_RESULT, Kind.NON_FINITE)
_SETTING = re.compile(r"(?:torch|os|logging|faulthandler|resource)\.")  # begins a statement that changes the process
_TIMEOUT_SECONDS = 600
_MAX_LINE = 100  # characters


@dataclass(frozen=True, slots=True)
class TestFile:
    """The name and text of a test file, and the files that it reads from a folder beside it, by their paths there."""

    __test__ = False  # for pytest

    name: str
    text: str
    beside: Mapping[str, Path] = field(default_factory=dict)


def test_file_of(outcome: Outcome) -> TestFile:
    """Return the repro as a test. It runs in pytest's process, if its failure and its settings end with the test.

    Raises UsageError for a failure that no exit status shows.
    """
    repro, case = outcome.repro, outcome.minimal or outcome.case
    fingerprint = case.failure.fingerprint
    if repro is None:
        raise UsageError(f"{outcome.folder} has no repro: there is nothing to test.")
    if fingerprint.kind is Kind.SILENT_FALLBACK or fingerprint.exits_with_0:
        raise UsageError(f"{outcome.folder}: a test cannot see this failure: the repro ends with exit status 0.")
    name = _name(outcome)
    reason = title_of(case)
    script = _Script.of(repro.text)
    alone = fingerprint.kind not in _IN_PROCESS or repro.template is None or repro.beside or repro.given
    if alone or case.rate < 1 or any(map(_SETTING.match, script.settings)):
        return _in_an_interpreter(name, reason, outcome)
    raised, import_line = _raised(outcome, script)
    test = f"{_mark(raised, reason)}\n{under(f'def test_{name}():', ['torch.compiler.reset()', *script.action])}"
    imports = [*script.imports, "import pytest", *([import_line] if import_line else [])]
    definitions = [(blank_lines_above(text), [text]) for text in script.top]
    text = page([(0, [f'"""{_about(outcome)}"""']), (1, sorted_imports(imports)), *definitions, (2, [test])])
    return TestFile(f"test_{name}.py", text)


def _mark(raised: str, reason: str) -> str:
    """Return the mark of an expected failure, in one line if it fits."""
    arguments = ["strict=True", *([f"raises={raised}"] if raised else []), f"reason={literal(reason)}"]
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


def _in_an_interpreter(name: str, reason: str, outcome: Outcome) -> TestFile:
    """Return a test that runs the repro in an interpreter of its own, from a folder beside the test."""
    repro = outcome.repro
    assert repro is not None, "there is a repro"
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
        (2, [f"{_mark('AssertionError', reason)}\n{test}"]),
    ])  # fmt: skip
    beside = {f"{folder}/{each}": outcome.folder / each for each in ("repro.py", *repro.beside)}
    return TestFile(f"test_{name}.py", text, beside)


@dataclass(frozen=True, slots=True)
class _Script:
    """The statements of a repro: imports, `top` up to its last definition, and the rest, which fails.

    `settings` are the statements of `top` that are no definitions.
    """

    imports: tuple[str, ...]
    top: tuple[str, ...]
    settings: tuple[str, ...]
    action: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Script:
        statements = statements_of(text)
        imports: list[str] = []
        top: list[str] = []
        settings: list[str] = []
        action: list[str] = []
        last = max((i for i, (node, _) in enumerate(statements) if _is_definition(node)), default=-1)
        for place, (node, source) in enumerate(statements):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.append(source)
            elif place > last:
                action.append(source)
            else:
                top.append(source)
                settings += [] if _is_definition(node) else [source]
        return cls(tuple(imports), tuple(top), tuple(settings), tuple(action))


def _is_definition(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _raised(outcome: Outcome, script: _Script) -> tuple[str, str]:
    """Return the exception that ended the verified runs, as the test names it, and the import that it needs.

    Both are empty if the name leads nowhere: a class within a function, say.
    """
    runs = outcome.verification.runs if outcome.verification is not None else ()
    traceback = runs[-1].output.rpartition("Traceback (most recent call last):")[2] if runs else ""
    line = next((line for line in traceback.splitlines() if line and not line.startswith(" ")), "")
    module, _, name = line.partition(":")[0].rpartition(".")
    if not name.isidentifier():
        return "", ""
    if not module:
        is_own = any(re.match(rf"class {name}\b", text) for text in script.top)
        return (name, "") if is_own or hasattr(builtins, name) else ("", "")
    if not all((part.isidentifier() and part[0].islower()) or part[0] == "_" for part in module.split(".")):
        return "", ""
    return name, f"from {module} import {name}"
