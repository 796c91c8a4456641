"""Reduce a script whose failure no graph shows, like an exception of torch.compile itself, to a smaller script."""

from __future__ import annotations

import ast
import json
import re
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst
from libcst import matchers as m

from minifier import search
from minifier.capturing.script import Program
from minifier.case import BackendReference, Case
from minifier.case.encode import pack, unpack
from minifier.case.store import write_atomically
from minifier.emit.footer import needed_folder, versions
from minifier.errors import MinifyError, NoRepro, NothingToReduce, StoppedEarly
from minifier.failure import Failure, Fingerprint, Kind, Stage, same
from minifier.probe.prepared_case import extend_path
from minifier.probe.verdicts import seen
from minifier.process.interrupts import interrupt_once
from minifier.process.orphans import adopt_orphans
from minifier.process.progress import Channel, Phase, Progress, Ui, counted, run_displayed
from minifier.reduction.summary import Summary
from minifier.settings import Settings
from minifier.slicing import Wanted, backend_names, folders_imported_from, imported_tops, names_bound, slice_module
from minifier.slicing.slices import tidied
from minifier.source.failing_statement import lines_of, up_to_failing_statement
from minifier.source.missing_names import missing_names
from minifier.source.probe import SourceLab, passed, with_first
from minifier.source.reduce import reduce_source
from minifier.source.tree import Tree, definition

_RESULT_FILE = "reduced.json"


@dataclass(frozen=True, slots=True)
class ReducedScript:
    """A reduced script: its text, the statements before and after, and the probes by verdict.

    The reduced script shows `failure`. `slowest_seconds`: of the slowest failing probe. `minimal`: no statement can be
    left out. `path` are the folders that Python adds to the import path for the script; the reduced script imports
    modules from `folders` among them.
    """

    source: str
    before: int
    after: int
    minimal: bool
    probes: tuple[tuple[str, int], ...]
    seconds: float
    slowest_seconds: float
    failure: Failure
    path: tuple[str, ...]
    folders: tuple[str, ...]

    @property
    def summary(self) -> Summary:
        """The counts of the reduction."""
        counts = dict(self.probes)
        stopped = "" if self.minimal else "a budget was used up, or it was interrupted"
        probes = {"total": sum(counts.values()), **counts}
        return Summary(self.before, self.after, 0, 0, probes, self.minimal, stopped, self.seconds)

    @property
    def text(self) -> str:
        """The repro: the tidied source, and the failure in its last comment."""
        module = cst.parse_module(self.source).visit(_WithoutBlankBegin())
        assert isinstance(module, cst.Module)
        body = [tidied(node, module.body[i - 1] if i else None) for i, node in enumerate(module.body)]
        source = module.with_changes(body=body).code
        footer = [self.failure.line, versions(), *needed_folder(imported_tops(source), self.folders)]
        return f"{source.strip()}\n\n" + "".join(f"# {line}\n" for line in footer)


class _WithoutBlankBegin(cst.CSTTransformer):
    """Removes the blank lines ahead of a block's first statement: they followed a statement that is gone."""

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        first, *rest = updated_node.body
        lines = [line for line in getattr(first, "leading_lines", ()) if line.comment is not None]
        return updated_node.with_changes(body=[first.with_changes(leading_lines=lines), *rest])


def as_run(program: Program) -> str:
    """Return the script's source with its command-line arguments set and its relative imports made absolute."""
    source = program.source()
    if program.is_module:
        source = _absolute(source, program.target.rpartition(".")[0])
    if not program.arguments:
        return source
    return with_first(source, f"import sys\n\nsys.argv[1:] = {list(program.arguments)!r}\n\n")


def of_its_backend(source: str, backend: BackendReference | None) -> tuple[str, ...]:
    """Return the texts of the definitions and assignments that the backend needs; None stands for all backends.

    They stay whole: the reduction must not change the backend under test.
    """
    module = cst.parse_module(source)
    definitions = [node for node in module.body if isinstance(node, (cst.FunctionDef, cst.ClassDef))]
    if backend is None:
        names = sorted(backend_names(source))
    else:
        names = [name for name in (*backend.names, backend.made_by) if name]
    needed = set(names_bound(slice_module(source, Wanted(names)))) if names else set()
    assignments = [
        module.code_for_node(line.with_changes(leading_lines=())).strip()
        for line in module.body
        if isinstance(line, cst.SimpleStatementLine) and m.matches(line, m.SimpleStatementLine([m.Assign()]))
        if set(names_bound(module.code_for_node(line))) & needed
    ]
    return *(definition(module, node) for node in definitions if node.name.value in needed), *assignments


def _absolute(source: str, package: str) -> str:
    """Replace relative imports by absolute imports; an import above the top-level package stays."""
    lines = source.splitlines(keepends=True)
    packages = package.split(".")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or not node.level or node.level > len(packages):
            continue
        parent = ".".join(packages[: len(packages) - node.level + 1])
        module = f"{parent}.{node.module}" if node.module else parent
        line = lines[node.lineno - 1]
        dots = re.compile(rf"(from\s+){re.escape('.' * node.level)}\s*{re.escape(node.module or '')}(?=\s+import\b)")
        lines[node.lineno - 1] = dots.sub(rf"\g<1>{module}", line, count=1)
    return "".join(lines)


def _reduce(
    program: Program,
    out: Path,
    settings: Settings,
    channel: Channel,
    of_backend: Case | None,
    expected: Failure | None,
) -> ReducedScript:
    """Reduce the script in this process. Candidates are forks, with torch already imported."""
    started = time.monotonic()
    source = as_run(program)
    whole = of_its_backend(source, of_backend.backend if of_backend is not None else None)
    before = len(Tree(source, whole).statements)
    extend_path(_folders(program))
    with tempfile.TemporaryDirectory(prefix="minify-") as scratch:
        lab = SourceLab(
            Path(scratch),
            out / "journal.jsonl",
            Fingerprint(Stage.COMPILE, Kind.EXCEPTION),
            settings.match,
            settings.memory,
            settings.timeout,
            settings.workers or 1,
            whole,
            show=channel.show,
        )
        failure = _first_failure(lab, source, of_backend, expected)
        source = _which_passes_in_eager(lab, program, source, failure)
        lab.sought = failure.fingerprint
        lab.missing = missing_names(source)
        lab.whole = (*whole, *_own_check(source, failure))
        if not lab.holds([source])[0]:
            raise NoRepro("the script fails in another way each time it is run")
        channel.say(f"reducing the script itself: {counted(before, 'statement')}")
        budget = search.Budget.of(settings.max_probes, settings.budget, started)
        reduced = reduce_source(lab, source, lines_of(failure), budget, _folders(program))
    return ReducedScript(
        reduced.source,
        before,
        reduced.statements,
        reduced.minimal,
        probes=tuple((verdict.value, count) for verdict, count in lab.counts.items()),
        seconds=time.monotonic() - started,
        slowest_seconds=lab.slowest_seconds,
        failure=failure,
        path=_folders(program),
        folders=tuple(folders_imported_from(reduced.source, _folders(program))),
    )


def _first_failure(lab: SourceLab, source: str, of_backend: Case | None, expected: Failure | None) -> Failure:
    """Run the whole script and return its failure.

    Raises NoRepro if the script passes, hangs or misses a file. Also if the failure is not the backend's, or, without
    a backend call, not of the expected type.
    """
    failure = seen(lab.run(source), ())
    if failure is None or failure.fingerprint.kind is Kind.TIMEOUT:
        raise NoRepro(
            "run in an empty folder, the script does not fail: it needs files beside it, catches its own failure, or "
            "fails only in its first run"
        )
    if "FileNotFoundError" in failure.fingerprint.types:
        raise NoRepro(
            f"run in an empty folder, as for a reduction of its source, the script shows {failure.line}. It needs "
            "files beside it: with their absolute paths it can be run there"
        )
    if of_backend is not None:
        sought = of_backend.failure.fingerprint
        is_expected = is_of_script(sought, failure.fingerprint)
    else:
        is_expected = expected is None or _type(expected.fingerprint) == _type(failure.fingerprint)
    if not is_expected:
        raise NoRepro(f"run in an empty folder, the script shows {failure.line}")
    return failure


def is_of_script(sought: Fingerprint, shown: Fingerprint) -> bool:
    """Return whether a run of the script shows the captured failure of its backend call.

    Frames may differ: torch.fx runs a module, when it raises, in another way than in the observed run.
    """
    alike = same(sought, replace(shown, stage=sought.stage), renamed={})
    return alike or (bool(shown.types) and (sought.types, sought.message) == (shown.types, shown.message))


def _type(fingerprint: Fingerprint) -> str:
    """Return the type of the innermost exception; for a death, the signal or the exit status."""
    return fingerprint.types[-1] if fingerprint.types else fingerprint.message


def _which_passes_in_eager(lab: SourceLab, program: Program, source: str, failure: Failure) -> str:
    """Return the source, or its statements up to the failing statement, whichever passes in eager mode first.

    Raises NothingToReduce if both fail.
    """
    in_eager = seen(lab.run(source, compiled=False), ())
    if in_eager is None:
        return source
    shorter = up_to_failing_statement(source, failure)
    if shorter != source and passed(lab.run(shorter, compiled=False)):
        return shorter
    line = failure.line if in_eager.line == failure.line else f"{in_eager.line}\nUnder torch.compile: {failure.line}"
    raise NothingToReduce(f"{program.said} fails by itself, without torch.compile as well: {line}")


def _own_check(source: str, failure: Failure) -> tuple[str, ...]:
    """Return the text of the script's failed assertion, if any: the reduction must not change this check.

    An assertion that calls torch.compile itself is not returned: the reduction may change it.
    """
    lines = lines_of(failure)
    if not lines or "AssertionError" not in failure.fingerprint.types:
        return ()
    tree = Tree(source)
    number = tree.at_line(lines[-1])
    text = tree.module.code_for_node(tree.statements[number]).strip() if number is not None else ""
    return (text,) if re.match(r"assert\b|[\w.]*\bassert\w*\(", text) and "compile(" not in text else ()


def _folders(program: Program) -> tuple[str, ...]:
    """Return the folders that Python adds to the import path for the script."""
    return (str(Path.cwd()),) if program.is_module else (str(Path(program.target).resolve().parent),)


def reduce_script(
    program: Program,
    out: Path,
    settings: Settings,
    ui: Ui,
    of_backend: Case | None = None,
    expected: Failure | None = None,
) -> ReducedScript:
    """Reduce the script in a forked child. The probes go into the journal in `out`.

    `of_backend` holds a backend call's failure that no repro of its graph showed. `expected` is the script's failure
    during the capture.

    Raises NothingToReduce if the script fails without torch.compile too.
    Raises NoRepro if the script does not show the failure in an empty folder.
    """
    result_path = out / _RESULT_FILE

    def work(channel: Channel) -> int:
        interrupt_once()
        adopt_orphans()
        try:
            reduced = _reduce(program, out, settings, channel, of_backend, expected)
        except KeyboardInterrupt:  # from then on what was reached stays
            raise StoppedEarly("interrupted before the reduction of the script had begun") from None
        write_atomically(result_path, json.dumps(pack(reduced)))
        return 0

    out.mkdir(parents=True, exist_ok=True)
    ui.show(Progress(Phase.REDUCING, unit="line"))
    run_displayed(work, ui)
    if not result_path.exists():
        raise MinifyError("the reduction of the source ended without a result")
    reduced: ReducedScript = unpack(ReducedScript, json.loads(result_path.read_text(encoding="utf-8")))
    result_path.unlink()
    return reduced
