"""Reduce a script whose failure no graph shows: first runs, reduction, the script that is left."""

from __future__ import annotations

import ast
import json
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import libcst as cst

from minifier import search
from minifier.capturing.script import Program
from minifier.capturing.slicing.cases import folders_imported_from
from minifier.capturing.slicing.module_statements import missing_names
from minifier.capturing.slicing.slices import tidied
from minifier.data.case import BackendReference, Case
from minifier.data.case.files import is_made_here, marked
from minifier.data.case.literals import packages_imported
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.serial import pack, unpack
from minifier.data.case.store import read_json, write_atomically
from minifier.data.failure import Failure, Fingerprint, Kind, Stage, same
from minifier.data.settings import Settings
from minifier.data.torch_names import ERRORS_OF_DYNAMO
from minifier.errors import (
    FailsByItself,
    MachineFailed,
    MinifyError,
    NoRepro,
    StoppedAtOnce,
    StoppedEarly,
    ToolFailed,
    said_of_trace,
)
from minifier.process.descendants import adopt_orphans
from minifier.process.interpreters import replace_programs_folder
from minifier.process.interrupts import interrupt_once
from minifier.process.progress import Phase, Progress, ProgressPipe, Ui, counted, run_displayed
from minifier.reduction.probe.verdicts import seen
from minifier.reduction.summary import KEPT, Summary
from minifier.repro.emit.footer import needed_folder, versions
from minifier.repro.source.conditions import Kept, SameDraws, SameLine, SameSeeds, SourceRun
from minifier.repro.source.eager_check import with_returned_value
from minifier.repro.source.edit_search import is_readable
from minifier.repro.source.frozen import Frozen
from minifier.repro.source.probe import TIMEOUT_FACTOR, SourceLab, passed, write_others
from minifier.repro.source.reduce import reduce_source
from minifier.repro.source.run_source import with_first
from minifier.repro.source.script import with_eager_backend
from minifier.repro.source.statement_tree import deep_sources, tree_of
from minifier.torch_side.fx.script_objects import FILE


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What is known of the script's run as the user runs it.

    failure: how the script failed; None if that is not known.
    path: folders that the script added to the import path.
    check: the texts of statements that this tool has added, and no edit changes.
    further: how many it has added besides.
    reached: the script as an interrupted reduction has left it; "" if there was none.
    """

    failure: Failure | None = None
    seconds: float = 0.0
    path: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    further: int = 0
    reached: str = ""


def first_failure(
    lab: SourceLab, source: str, of_backend: Case | None, known: KnownRun, said: str
) -> tuple[str, Failure]:
    """Run the whole script; return the source to reduce, and its failure, which `lab` then looks for.

    Raises NoRepro if the script does not show the failure in an empty folder, or in another way each time.
    Raises FailsByItself if the script fails in an empty folder in eager mode too.
    """
    source, first = _shows(lab, [known.reached, source] if known.reached else [source], of_backend, known)
    shorter = _which_passes_in_eager(lab, source, _failure(first), said)
    if shorter != source:
        source, first = _shows(lab, [shorter], of_backend, known)
    failure = _look_for(lab, first, known)
    lab.leave_out_backends(source)
    if lab.without_backends and (plain := with_eager_backend(source)) != source:
        run = SourceRun(plain, lab.run(plain))
        if seen(run.end) is not None and same(failure.fingerprint, _failure(run).fingerprint):
            source, failure = plain, _look_for(lab, run, known)
    if not lab.holds([source])[0]:
        raise NoRepro(f"{said} fails in another way each time it is run")
    return source, failure


def _look_for(lab: SourceLab, first: SourceRun, known: KnownRun) -> Failure:
    """Have the lab look for the failure of this run, and return it."""
    failure = _failure(first)
    failure = replace(failure, fingerprint=replace(failure.fingerprint, at_traced=True))
    lab.sought = failure.fingerprint
    lab.missing = missing_names(first.source)
    lab.conditions = [SameLine(first), *([Kept(known.check), SameDraws()] if known.check else [])]
    if not "".join(failure.fingerprint.types[-1:]).startswith(ERRORS_OF_DYNAMO):  # the innermost; a death has none
        frozen = Frozen(first, has_other_check=bool(known.check))
        lab.conditions += [frozen, *([SameSeeds(first)] if frozen.has_check or known.check else [])]
    return failure


def _shows(lab: SourceLab, sources: list[str], of_backend: Case | None, known: KnownRun) -> tuple[str, SourceRun]:
    """Return the first of the sources that shows the expected failure, and its run. Raises NoRepro."""
    errors: list[NoRepro] = []
    for source in sources:
        run = SourceRun(source, lab.run(source))
        try:
            _expect(seen(run.end), of_backend, known)
        except NoRepro as error:
            errors.append(error)
            continue
        return source, run
    raise errors[-1]


def _failure(run: SourceRun) -> Failure:
    failure = seen(run.end)
    assert failure is not None, "the run was found to fail"
    return failure


def _expect(failure: Failure | None, of_backend: Case | None, known: KnownRun) -> None:
    """Raise NoRepro unless this is the failure of the script, as far as known, or of its backend call."""
    where = "run in an empty folder, as for a reduction of its source, the script"
    if failure is None:
        raise NoRepro(
            f"{where} does not fail: it needs files beside it, catches its own failure, or fails only in its first run"
        )
    if failure.fingerprint.kind is Kind.TIMEOUT:
        raise NoRepro(f"{where} does not end: {failure.message}. The source of a script that hangs is not reduced")
    if "FileNotFoundError" in failure.fingerprint.types:
        raise NoRepro(
            f"{where} shows {failure.line}. It needs files beside it: with their absolute paths it can be run there"
        )
    sought = of_backend.failure if of_backend is not None else known.failure
    if sought is not None and not shows_failure_of_call(sought.fingerprint, failure.fingerprint):
        raise NoRepro(f"{where} shows {failure.line}, and not {sought.line}")


def shows_failure_of_call(sought: Fingerprint, shown: Fingerprint) -> bool:
    """Return whether a run of the script shows the captured failure of its backend call.

    Frames may differ: torch.fx runs a module, when it raises, in another way than in the observed run.
    """
    alike = same(sought, replace(shown, stage=sought.stage), renamed={})
    return alike or (bool(shown.types) and (sought.types, sought.message) == (shown.types, shown.message))


def _which_passes_in_eager(lab: SourceLab, source: str, failure: Failure, said: str) -> str:
    """Return the source, or its statements up to the failing statement, whichever passes in eager mode first.

    Raises FailsByItself if both fail.
    """
    in_eager = seen(lab.run(source, compiled=False))
    if in_eager is None:
        return source
    shorter = up_to_failing_statement(source, failure)
    if shorter != source and passed(lab.run(shorter, compiled=False)):
        return shorter
    line = failure.line if in_eager.line == failure.line else f"{in_eager.line}\nUnder torch.compile: {failure.line}"
    raise FailsByItself(f"{said} fails by itself, without torch.compile as well: {line}")


def lines_of(failure: Failure) -> list[int]:
    """Return the script's line numbers in the traceback, innermost last."""
    return [int(line) for line in re.findall(rf'File "{FILE}", line (\d+)', failure.traceback)]


def up_to_failing_statement(source: str, failure: Failure) -> str:
    """Return the source up to the failing statement of the module."""
    in_module = re.findall(rf'File "{FILE}", line (\d+),? in <module>', failure.traceback)
    if not in_module:
        return source
    last = int(in_module[-1])
    ends = [node.end_lineno for node in ast.parse(source).body if node.lineno <= last]
    return "".join(source.splitlines(keepends=True)[: ends[-1]])


_KIND = "reduced"  # of the file's mark
_MIN_FIRST_SECONDS = 60.0  # for the whole script, which compiles in each run
_SPENT = "a budget was used up, or it was interrupted"
_KILLED = "the process that reduced it was killed"


@dataclass(frozen=True, slots=True)
class ReducedScript:
    """A reduced script: its text, the statements before and after, and the probes by verdict.

    The reduced script shows `failure`. `slowest_seconds`: of the slowest failing probe. `minimal`: no statement can be
    left out; else `stopped` says why the reduction ended. `path` are the folders that Python adds to the import path
    for the script, and those that the script adds; the reduced script imports modules from `folders` among them.
    `kept` are the functions that no edit changed, as they are the backend's. `without_backends`: the failure shows
    where each graph runs in eager mode, so that no backend is at fault. `warnings` are sentences about this tool's
    errors in the search, `errors` the tracebacks.
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
    stopped: str = ""
    kept: tuple[str, ...] = ()
    without_backends: bool = False
    in_aot_eager: bool | None = None
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """The counts of the reduction."""
        counts = dict(self.probes)
        probes = {"total": sum(counts.values()), **counts}
        notes = (*([self.said_of_kept] if self.kept else []), *self.warnings)
        return Summary(
            self.before,
            self.after,
            0,
            0,
            probes,
            self.minimal,
            self.stopped,
            self.seconds,
            notes=notes,
            errors=self.errors,
        )

    @property
    def said_of_kept(self) -> str:
        """Say which functions no edit changed."""
        return KEPT + ", ".join(self.kept)

    def text(self, backend: BackendReference) -> str:
        """Return the repro: the tidied source, and the failure and the backend's version in its last comment."""
        with deep_sources():
            module = cst.parse_module(self.source).visit(_WithoutBlankBegin())
            assert isinstance(module, cst.Module)
            body = [tidied(node, module.body[i - 1] if i else None) for i, node in enumerate(module.body)]
            source = module.with_changes(body=body).code
        footer = [self.failure.line, versions(backend), *needed_folder(packages_imported(source), self.folders)]
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
    channel: ProgressPipe,
    of_backend: Case | None,
    known: KnownRun,
    reached: Callable[[ReducedScript], None] = lambda _: None,
) -> ReducedScript:
    """Reduce the script in this process. Candidates are forks, with torch already imported.

    `reached` gets the script after each success.
    """
    started = time.monotonic()
    folder = Path.cwd() if program.is_module else Path(program.target).resolve().parent
    folders = tuple(dict.fromkeys((str(folder), *known.path)))
    replace_programs_folder(folders)
    with tempfile.TemporaryDirectory(prefix="minify-") as scratch:
        lab = SourceLab(
            Path(scratch),
            out / "journal.jsonl",
            Fingerprint(Stage.COMPILE, Kind.EXCEPTION),
            settings.match,
            settings.memory,
            settings.timeout,
            settings.workers or 1,
            folders,
            FILE if program.is_module else str(Path(program.target).resolve()),
            show=channel.show,
        )
        if known.seconds:
            lab.first_seconds = max(_MIN_FIRST_SECONDS, TIMEOUT_FACTOR * known.seconds)
        source, failure = first_failure(lab, as_run(program), of_backend, known, program.said)

        def own_statements(text: str) -> int:
            tree = tree_of(text, lab.frozen)
            texts = map(tree.text, tree.statements)
            return sum(each not in known.check and not each.startswith("global ") for each in texts) - known.further

        before = own_statements(as_run(program))

        def script(text: str, stopped: str, minimal: bool = False) -> ReducedScript:
            return ReducedScript(
                text,
                before,
                own_statements(text),
                minimal,
                probes=tuple((verdict.value, count) for verdict, count in lab.counts.items()),
                seconds=time.monotonic() - started,
                slowest_seconds=lab.slowest_seconds,
                failure=replace(failure, fingerprint=lab.expected),
                path=folders,
                folders=tuple(folders_imported_from(text, folders)),
                stopped=stopped,
                kept=tuple(name for condition in lab.conditions for name in condition.kept_in(text)),
                warnings=tuple(lab.warnings),
                errors=tuple(lab.errors),
            )

        def accepted(text: str) -> None:
            if not is_readable(lab, text):  # refused by the search
                return
            reached(script(text, _KILLED))

        lab.accepted = accepted
        channel.say(f"reducing the script itself: {counted(before, 'statement')}")
        seconds = settings.seconds_for(known.seconds or lab.slowest_seconds)
        budget = search.Budget.of(settings.max_probes, seconds, started)
        reached(script(source, _KILLED))
        try:
            reduced = reduce_source(lab, source, lines_of(failure), budget, folders, settings.wants)
            without_backends = lab.without_backends
            if without_backends and not lab.holds_with_backends(reduced.source):
                without_backends = False
                left = budget if reduced.minimal else search.Budget(max_probes=0)
                reduced = reduce_source(lab, source, lines_of(failure), left, folders, settings.wants)
        finally:
            write_others(lab.others, out / "others")
        stopped = "" if reduced.minimal else _SPENT
        done = script(reduced.source, stopped, reduced.minimal)
        done = _with_returned_value(lab, done) if known.check else done
        is_asked = settings.explain and not without_backends and not stopped
        in_aot_eager = lab.fails_in_aot_eager(reduced.source) if is_asked else None
        return replace(done, without_backends=without_backends, in_aot_eager=in_aot_eager)


def _with_returned_value(lab: SourceLab, done: ReducedScript) -> ReducedScript:
    """Return the script with a shorter form of the check that this tool has added, if that fails alike."""
    text = with_returned_value(done.source)
    failure = None if text is None else seen(lab.run(text))
    if text is None or failure is None or failure.fingerprint.types != done.failure.fingerprint.types:
        return done
    failure = replace(failure, fingerprint=replace(failure.fingerprint, at_traced=True))  # as in `first_failure`
    return replace(done, source=text, failure=failure) if passed(lab.run(text, compiled=False)) else done


def _reached(data: Any) -> ReducedScript:
    reduced: ReducedScript = unpack(ReducedScript, data[_KIND])
    return reduced


def reduce_script(
    program: Program,
    out: Path,
    settings: Settings,
    ui: Ui,
    of_backend: Case | None = None,
    known: KnownRun = KnownRun(),
    interrupting: Callable[[], None] = lambda: None,
) -> ReducedScript:
    """Reduce the script in a forked child. The probes go into the journal in `out`.

    `of_backend` holds a backend call's failure that no repro of its graph showed. `known` is the script's run as the
    user runs it. After an error, or the death of the child, the best script so far is returned. What an interrupted
    reduction has left in `out` goes on. `interrupting` is called at the first Ctrl-C; the second raises StoppedAtOnce.

    Raises FailsByItself if the script fails in an empty folder without torch.compile too.
    Raises NoRepro if the script does not show the failure in an empty folder.
    """
    result_path = RunFolder(out).reached
    begun = read_json(result_path)
    if is_made_here(_KIND, begun):
        known = replace(known, reached=_reached(begun).source)

    def save(reduced: ReducedScript) -> None:
        write_atomically(result_path, json.dumps(marked(_KIND, {_KIND: pack(reduced)})))

    def work(channel: ProgressPipe) -> int:
        interrupt_once()
        adopt_orphans()
        try:
            with deep_sources():
                save(_reduce(program, out, settings, channel, of_backend, known, save))
        except KeyboardInterrupt:  # from then on what was reached stays
            raise StoppedEarly("interrupted before the reduction of the script had begun") from None
        return 0

    out.mkdir(parents=True, exist_ok=True)
    ui.show(Progress(Phase.REDUCING, unit="line"))
    result_path.unlink(missing_ok=True)
    failed: MinifyError | None = None
    try:
        end = run_displayed(work, ui, interrupting)
        if end.interrupted_again:
            raise StoppedAtOnce("interrupted twice: nothing was verified; `minify run` begins again")
    except (ToolFailed, MachineFailed) as error:
        if not result_path.exists():
            raise
        failed = error
    if not result_path.exists():
        raise MinifyError("the reduction of the source ended without a result")
    reduced = _reached(read_json(result_path))
    result_path.unlink()
    if isinstance(failed, ToolFailed):
        trace = str(failed)
        reduced = replace(reduced, stopped=said_of_trace(trace), errors=(*reduced.errors, trace))
    elif failed is not None:
        reduced = replace(reduced, stopped=str(failed))
    for note in reduced.summary.notes:
        ui.say(note)
    return reduced
