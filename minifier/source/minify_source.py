"""From a script whose failure no graph shows to a smaller script that shows it: what torch.compile itself raises."""

from __future__ import annotations

import ast
import json
import re
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from minifier import search
from minifier.capturing.script import Program
from minifier.case import BackendReference, BackendSource, Case, Graph, Level, Node, Script
from minifier.case.encode import pack, unpack
from minifier.case.store import save, write_atomically
from minifier.emit.repro import Repro, versions
from minifier.errors import MinifyError, NoRepro, NothingToReduce
from minifier.failure import Failure, Fingerprint, Kind, Stage, same
from minifier.fx.script_definitions import FILE
from minifier.probe.prepared_case import extend_path
from minifier.probe.verdicts import seen
from minifier.process.forked_step import adopt_orphans, interrupt_once
from minifier.process.progress import Channel, Display, Phase, Progress, Ui, counted, run_displayed
from minifier.reduction.op_search import deadline_after
from minifier.reduction.summary import Summary
from minifier.report.environment import EnvironmentCollector
from minifier.report.finished import write_reports
from minifier.report.outcome import Outcome, Status
from minifier.settings import Settings
from minifier.slicing import Wanted, folders_imported_from, names_bound, names_given, slice_module
from minifier.slicing.slices import tidied
from minifier.source.probe import SourceLab
from minifier.source.reduce import reduce_source
from minifier.source.tree import Tree, definition
from minifier.verify import verify

_FOUND = "reduced.json"
_NO_GRAPH = Graph((Node("output", "output", "output", ((),)),))


@dataclass(frozen=True, slots=True)
class _ReducedScript:
    """What the child that reduces hands back."""

    source: str = ""
    before: int = 0
    after: int = 0
    minimal: bool = False
    probes: tuple[tuple[str, int], ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None


def as_run(program: Program) -> str:
    """The script's source with the arguments that it was given in it, and the package that it belongs to named."""
    source = program.source()
    if program.is_module:
        source = _absolute(source, program.target.rpartition(".")[0])
    if not program.arguments:
        return source
    return f"import sys\n\nsys.argv[1:] = {list(program.arguments)!r}\n\n{source}"


def of_its_backend(source: str, backend: BackendReference | None) -> tuple[str, ...]:
    """The functions and classes of the script that its backend (all its backends, if it is not known which) is made of:
    what fails is not to be taken apart."""
    module = cst.parse_module(source)
    definitions = [node for node in module.body if isinstance(node, (cst.FunctionDef, cst.ClassDef))]
    if backend is None:
        names = sorted(names_given(source))
    else:
        names = [name for name in (*backend.names, backend.made_by) if name]
    needed = set(names_bound(slice_module(source, Wanted(names)))) if names else set()
    return tuple(definition(module, node) for node in definitions if node.name.value in needed)


def _absolute(source: str, package: str) -> str:
    """The source with its relative imports written out; as it is, if it has none that can be."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        parts = package.split(".")
        if not isinstance(node, ast.ImportFrom) or not node.level or node.level > len(parts):
            continue
        home = ".".join(parts[: len(parts) - node.level + 1])
        wanted = f"{home}.{node.module}" if node.module else home
        line = lines[node.lineno - 1]
        dots = re.compile(rf"(from\s+){re.escape('.' * node.level)}\s*{re.escape(node.module or '')}(?=\s+import\b)")
        lines[node.lineno - 1] = dots.sub(rf"\g<1>{wanted}", line, count=1)
    return "".join(lines)


def _reduce(
    program: Program, out: Path, settings: Settings, channel: Channel, of_backend: Case | None
) -> _ReducedScript:
    """The reduction, in the process in which candidates find torch imported."""
    started = time.monotonic()
    source = as_run(program)
    sought = of_backend.failure if of_backend is not None else None
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
        failure = _first_failure(lab, source, sought)
        eager = lab.run(source, compiled=False)
        if "FileNotFoundError" in failure.fingerprint.types:
            raise NoRepro(
                f"run in an empty folder, as for a reduction of its source, the script shows {failure.line}. It needs "
                "files beside it: with their absolute paths it can be run there"
            )
        if eager.result is None or eager.result["status"] != "pass":
            raise NothingToReduce(f"{program.said} fails by itself, without torch.compile as well: {failure.line}")
        lab.sought = failure.fingerprint
        if not lab.holds([source])[0]:
            raise NoRepro("the script fails in another way each time it is run")
        channel.say(f"no graph shows it, so the script itself is reduced: {counted(before, 'statement')}")
        budget = search.Budget(max_probes=settings.max_probes, deadline=deadline_after(settings.budget, started))
        reduced = reduce_source(lab, source, _lines(failure), budget, _folders(program))
    counts = tuple((verdict.value, count) for verdict, count in lab.counts.items())
    return _ReducedScript(
        reduced.source, before, reduced.statements, reduced.minimal, counts, time.monotonic() - started, failure
    )


def _first_failure(lab: SourceLab, source: str, sought: Failure | None) -> Failure:
    """The failure of the whole script, which is that of a backend call if one is sought."""
    failure = seen(lab.run(source), ())
    if failure is None or failure.fingerprint.kind is Kind.TIMEOUT:
        raise NoRepro(
            "run in an empty folder, the script does not fail: it needs files beside it, takes what it fails with for "
            "no failure, or does it in its first run only"
        )
    if sought is not None:
        there = replace(failure.fingerprint, stage=sought.fingerprint.stage)
        if not same(sought.fingerprint, there, renamed=True):
            raise NoRepro(f"run in an empty folder, the script shows {failure.line}")
    return failure


def _lines(failure: Failure) -> list[int]:
    """The lines of the script that the traceback goes through, innermost last."""
    return [int(line) for line in re.findall(rf'File "{FILE}", line (\d+)', failure.traceback)]


def _folders(program: Program) -> tuple[str, ...]:
    """What a script has on its import path for itself."""
    return (str(Path.cwd()),) if program.is_module else (str(Path(program.target).resolve().parent),)


def minify_source(
    program: Program,
    out: Path,
    settings: Settings,
    ui: Ui,
    started: float,
    capture_seconds: float,
    of_backend: Case | None = None,
) -> Outcome:
    """Reduces the script, writes the repro, verifies it, reports; `of_backend` has the failure of a backend call that
    no repro made of its graph showed. Raises NothingToReduce if the script fails without torch.compile as well, NoRepro
    if it does not show the failure when it is run in an empty folder."""

    def work(channel: Channel) -> int:
        interrupt_once()
        adopt_orphans()
        found = _reduce(program, out, settings, channel, of_backend)
        write_atomically(out / _FOUND, json.dumps(pack(found)))
        return 0

    out.mkdir(parents=True, exist_ok=True)
    ui.show(Progress(Phase.REDUCING, unit="line"))
    run_displayed(work, ui)
    if not (out / _FOUND).exists():
        raise MinifyError("the reduction of the source ended without a result")
    found = unpack(_ReducedScript, json.loads((out / _FOUND).read_text(encoding="utf-8")))
    (out / _FOUND).unlink()
    backend = BackendReference("torch.compile", BackendSource.NONE) if of_backend is None else of_backend.backend
    return _finished(program, out, settings, found, backend, started, capture_seconds, ui)


def _finished(
    program: Program,
    out: Path,
    settings: Settings,
    found: _ReducedScript,
    backend: BackendReference,
    started: float,
    capture_seconds: float,
    display: Display,
) -> Outcome:
    assert found.failure is not None
    folders = tuple(folders_imported_from(found.source, _folders(program)))
    script = Script(program.name, path=_folders(program), folders=folders)
    case = Case(
        _NO_GRAPH,
        (),
        backend,
        found.failure,
        script=script,
        level=Level.SOURCE,
    )
    repro = Repro(_with_footer(found.source, found.failure), None)
    path = repro.write(out)
    collector = EnvironmentCollector()
    check = verify(
        path,
        found.failure.fingerprint,
        timeout=120.0,
        extra_path=folders,
        match=settings.match,
        memory=settings.memory,
        any_stage=True,
        runs=settings.verify,
        display=display,
    )
    display.show(Progress(Phase.REPORTS))
    counts = dict(found.probes)
    stopped = "" if found.minimal else "a budget was used up, or it was interrupted"
    summary = Summary(
        found.before,
        found.after,
        0,
        0,
        {"total": sum(counts.values()), **counts},
        found.minimal,
        stopped,
        found.seconds,
    )
    reason = ""
    if not check.holds:
        path.rename(out / "unverified.py")
        reason = (
            f"what is left of the script showed the failure in {check.same} of {len(check.runs)} fresh interpreters; "
            "it is kept as unverified.py"
        )
    status = Status.NO_REPRO if not check.holds else Status.STOPPED if stopped else Status.REDUCED
    outcome = Outcome(
        status,
        case,
        case,
        summary,
        repro if check.holds else None,
        check,
        reason,
        capture_seconds,
        time.monotonic() - started,
        match=settings.match,
        environment=collector.text(display.tick),
        folder=out,
    )
    save(case, out / "minimal")  # what has to be on the import path is in it
    write_reports(out, outcome)
    return outcome


def _with_footer(source: str, failure: Failure) -> str:
    module = cst.parse_module(source)
    body = [tidied(node, module.body[i - 1] if i else None) for i, node in enumerate(module.body)]
    source = module.with_changes(body=body).code
    return f"{source.strip()}\n\n# {failure.line}\n# {versions()}\n"


def is_of_torch(error: str, trace: str) -> bool:
    """Whether what ended a script was raised by torch.compile itself, and not by the script or what it calls."""
    if "InvalidBackend" in error:  # a name that nobody has registered
        return False
    if error.startswith(("torch._dynamo.exc.", "torch._inductor.exc.", "torch._functorch.")):
        return True
    files = [line for line in trace.splitlines() if line.lstrip().startswith('File "')]
    last = files[-1] if files else ""
    return any(part in last for part in ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/torch/fx/"))
