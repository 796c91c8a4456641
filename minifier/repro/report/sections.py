"""Compose a report from a finished run: the repro first, then the fields of PyTorch's own bug report form."""

from __future__ import annotations

import functools
import platform
import textwrap
from collections.abc import Iterable, Mapping
from importlib.metadata import version

from minifier.data.case import BackendSource, Case, Level, Ref
from minifier.data.case.literals import WITHOUT, literal, packages_imported
from minifier.data.case.store import ARTIFACTS
from minifier.data.failure.normalise import headline
from minifier.data.torch_names import INDUCTOR_CONFIG
from minifier.process.distributions import imported_beside_torch
from minifier.process.progress import Phase, counted
from minifier.reduction.summary import FAILS, OtherFailure, Summary
from minifier.repro.emit.footer import sentence_of_needs, versions, with_variables
from minifier.repro.emit.script_text import replaced_at_once
from minifier.repro.report.failure_text import both_errors, duplicates, sentence_of, title_of
from minifier.repro.report.last_block import in_module, what_to_do
from minifier.repro.report.markdown import Report, Section, code, fence, folded, items, prose, sections_of, table
from minifier.repro.report.outcome import Outcome, duplicate_key

_MAX_CHANGES = 12
_MAX_PLACES = 3  # in the model
_MAX_COMMENT_CHARACTERS = 100


def report_of(outcome: Outcome, original: Outcome | None = None) -> Report:
    """Return the whole report.

    `original` is the run before its texts were cleaned: the failure's key and the names of packages are taken from it.
    """
    original = original or outcome
    key = duplicate_key(original)
    facts = (outcome.verdict, versions(outcome.case.backend), f"key `{key}`")
    return Report(
        title_of(outcome.minimal or outcome.case),
        (
            *sections_of("", prose(" · ".join(facts))),
            *_repro(outcome),
            *sections_of("Describe the bug", prose(sentence_of(outcome)), *_course(outcome)),
            *both_errors(outcome),
            Section("Analysis", ()),
            *_explained(outcome),
            *_what_fails(outcome),
            *_needs(outcome),
            *_nearest(outcome),
            *_cause(outcome),
            *_how(outcome),
            *_met(outcome),
            *duplicates(outcome.minimal or outcome.case, key),
            *_errors(outcome),
            *_versions(outcome, original),
        ),
    )


def _course(outcome: Outcome) -> Iterable[str]:
    case = outcome.minimal or outcome.case
    if case.rate < 1:
        yield f"It is flaky: it shows in about {case.rate:.0%} of all attempts."
    yield prose(_minimality(outcome))
    if places := _places_in_model(case):
        yield prose(f"In the model: {places}.")
    if outcome.summary is not None:
        yield from _conclusions(outcome.summary)
    for sentence in outcome.unsupported:
        yield prose(f"Unsupported: {sentence}.")


def _places_in_model(case: Case) -> str:
    """Return the modules of the remaining ops; "" if none is in a module."""
    places = [f"{code(node.short_target)}{in_module(node, code)}" for node in case.graph.ops if node.module[0]]
    more = len(places) - _MAX_PLACES
    return ", ".join(places[:_MAX_PLACES]) + (f", and {counted(more, 'op')} more" if more > 0 else "")


def _minimality(outcome: Outcome) -> str:
    summary = outcome.summary
    if summary is None:
        return "The graph was not reduced."
    text = f"{outcome.reduced[:1].upper()}{outcome.reduced[1:]}."
    if summary.stopped_because and not summary.one_minimal:
        return text
    if outcome.minimal is not None and outcome.minimal.any_graph:
        return f"{text} The backend fails on any graph, also on one without ops, so no op is to blame."
    if summary.ops_after == 1 and not summary.exceptions and outcome.case.level is not Level.SOURCE:
        return f"{text} Without this op the failure was gone."
    how = "was taken away alone, together with the ops that only pick from its results,"
    if outcome.case.level is Level.SOURCE:
        is_seeded = outcome.repro is not None and "seed(" in outcome.repro.text
        how = f"{'but those that seed random numbers ' if is_seeded else ''}was taken out alone,"
    gone = "the failure was gone" if summary.exceptions else "the failure was gone every time"
    return f"{text} Each remaining {outcome.unit} {how} and {gone}."


def _what_fails(outcome: Outcome) -> Iterable[Section]:
    """List how each control backend fared on the same graph, and describe the failing backend."""
    case = outcome.minimal or outcome.case
    if case.is_of_torch:
        return ()
    sought = case.failure.fingerprint
    fails = f"fails ({sought.stage.value}, {sought.kind.value})"
    rows = [(code(name), how) for name, how in (outcome.summary.backends if outcome.summary is not None else ())]
    compared = table(("backend", "the same graph"), (*rows, (code(case.backend.name), fails))) if rows else ""
    return sections_of("The backend", compared, _reference(case), level=3, weight=1)


def _conclusions(summary: Summary) -> Iterable[str]:
    """Say what of the compiler is at fault, and what avoids the failure."""
    if summary.part:
        reason = replaced_at_once(summary.reason, {change: code(change) for change in summary.workarounds})
        yield prose(f"At fault: {summary.part}. {reason}")
    if summary.workarounds:
        yield "With each of these changes alone, the repro ran without the failure in a fresh interpreter:"
        yield items(what_to_do(change, code) for change in summary.workarounds)


def _explained(outcome: Outcome) -> Iterable[Section]:
    """List the probes that tell what of the compiler is at fault, and the files with what it made."""
    summary = outcome.summary
    if summary is None:
        return ()
    prefix = f"{INDUCTOR_CONFIG}."
    settings = [change for change, result in summary.explained if change.startswith(prefix) and result == FAILS]
    rows = [(_changed(change), result) for change, result in summary.explained if change not in settings]
    if settings:
        names = ", ".join(code(change.removeprefix(prefix)) for change in settings)
        rows.append((f"each alone, of {code(INDUCTOR_CONFIG)}: {names}", FAILS))
    under = f" with {code(summary.failing_control)}" if summary.failing_control else ""
    tried = table(("change", f"the reduced program{under}"), rows) if rows else ""
    files = ", ".join(code(f"{ARTIFACTS}/{name}") for name in summary.artifacts)
    made = f"Graphs as AOTAutograd's compilers got and changed them, and inductor's code: {files}."
    return sections_of("What is at fault", tried, prose(made) if summary.artifacts else "", level=3, weight=1)


def _changed(change: str) -> str:
    source = change.removeprefix(WITHOUT)
    is_source = " = " in source or source.startswith(("options=", "backend="))
    return change.removesuffix(source) + code(source) if is_source else change


def _reference(case: Case) -> str:
    backend = case.backend
    package = f"{backend.distribution} {backend.version or ''}".strip() if backend.distribution else ""
    rows = [
        ("name", code(backend.name)),
        *([("distribution", package)] if package and backend.reach is not BackendSource.DEFINED else []),
        *(("import", code(line)) for line in (*backend.ahead, *backend.imports)),
        *([("given to torch.compile as", code(backend.expression))] if backend.expression else []),
        *([("with mode", code(backend.mode))] if backend.mode not in (None, "default") else []),
    ]
    return table(("", ""), rows)


def _needs(outcome: Outcome) -> Iterable[Section]:
    """Say what the failure needs besides its ops: sizes, dtypes, state."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None or not summary.passes:
        return ()
    blocks = [prose(sentence_of_needs(case, outcome.names, code))]
    if case.others:
        graphs = counted(len(case.others), "other graph")
        blocks.append(f"The backend must have compiled and called {graphs} before: alone, the failing call passes.")
    changes = [with_variables(change, outcome.names, code) for change in summary.needs]
    if (more := len(changes) - _MAX_CHANGES) > 0:
        changes[_MAX_CHANGES:] = [f"{counted(more, 'more change')} of details."]
    blocks += ["Each of these was changed alone, and the failure was gone:", items(changes)] if changes else []
    return sections_of("What the failure needs", *blocks, level=3, weight=1)


def _nearest(outcome: Outcome) -> Iterable[Section]:
    blocks = ["With this change the failure was gone:", fence(outcome.nearest, "diff")] if outcome.nearest else []
    return sections_of("The nearest that passes", *blocks, level=3, weight=1)


def _cause(outcome: Outcome) -> Iterable[Section]:
    """Say whether the repro's ops make the script's result wrong."""
    cause = outcome.summary.cause if outcome.summary is not None else ""
    said = prose(f"{cause[0].upper()}{cause[1:]}.") if cause else ""
    return sections_of("Whether these ops are at fault", said, level=3, weight=2)


def _repro(outcome: Outcome) -> Iterable[Section]:
    first, _, more = outcome.reason.partition("\n")
    reason = (prose(first), fence(more) if more else "")
    if outcome.repro is None:
        left = _graph(outcome.minimal, outcome.names) if outcome.minimal and outcome.minimal.graph.ops else ()
        return sections_of("Minified repro", "There is none.", *reason, *left)
    folders = outcome.minimal.folders if outcome.minimal is not None else ()
    beside = "It reads values from `inputs.safetensors`, beside it." if outcome.repro.tensors else ""
    where = f"It needs {code(':'.join(folders))} on `PYTHONPATH`: its modules are not installed, nor in the bundle."
    path = where if folders else ""
    return sections_of("Minified repro", fence(_wrapped(outcome.repro.text), "python"), beside, path, *reason)


def _graph(case: Case, names: Mapping[str, str]) -> Iterable[str]:
    """Show a line for each tensor that the graph gets, and for each of its ops, with these names."""
    source = functools.partial(literal, ref=lambda ref: names.get(ref.name, ref.name))
    lines = [f"{source(Ref(item.name))}: {item.meta.dtype}{list(item.meta.shape)}" for item in case.tensor_inputs]
    for node in case.graph.ops:
        given = ", ".join([*map(source, node.args), *(f"{key}={source(value)}" for key, value in node.kwargs.items())])
        lines.append(f"{source(Ref(node.name))} = {node.target}({given})")
    return "What is left of the graph, which fails under minify:", fence("\n".join(lines))


def _wrapped(program: str) -> str:
    """Return the program with the long lines of its last comment wrapped."""
    lines = program.rstrip().splitlines()
    first = next((n for n in range(len(lines), 0, -1) if not lines[n - 1].startswith("#")), 0)
    wrapper = textwrap.TextWrapper(_MAX_COMMENT_CHARACTERS, subsequent_indent="#   ", break_long_words=False)
    return "\n".join([*lines[:first], *map(wrapper.fill, lines[first:])])


def _how(outcome: Outcome) -> Iterable[Section]:
    """Show what the reduction noted, and its time, on a click."""
    summary, notes = outcome.summary, list[str]()
    if summary is not None:
        skipped = [name for name, end in summary.passes.items() if end == "skipped"]
        notes = [*summary.notes, *filter(None, [summary.too_large, summary.hiding])]
        notes += [f"steps beyond a run of the script: {', '.join(outcome.fallbacks)}"] if outcome.fallbacks else []
        notes += [f"skipped: {', '.join(skipped)}"] if skipped else []
        notes += [f"cut off: {', '.join(summary.unfinished)}"] if summary.unfinished else []
    return sections_of("How it was reduced" if notes else "Time", items(notes), _time(outcome), level=3, weight=5)


def _time(outcome: Outcome) -> str:
    """Show the seconds of the run's phases, which add up to the total."""
    if not outcome.phases:
        return ""
    rows = [(Phase[name.upper()].value, f"{seconds:.1f}") for name, seconds in outcome.phases.items()]
    return folded(f"The time: {sum(outcome.phases.values()):.0f} s", table(("phase", "seconds"), rows))


def _other(failure: OtherFailure) -> str:
    where = f" in {code(failure.where)}" if failure.where else ""
    near = ", raised at the same place by fewer ops" if failure.near else ""
    ops, seen = counted(failure.ops, "op"), counted(failure.sightings, "time")
    return (
        f"{code(failure.type + ': ' + headline(failure.message))}{where} at {ops}, seen {seen}{near}: "
        f"{code('minify reduce ' + failure.case)} in the output folder"
    )


def _met(outcome: Outcome) -> Iterable[Section]:
    """List other failures of the search, the backend's fallbacks, state that could not be saved, and other failing
    graphs."""
    others = map(_other, outcome.summary.others) if outcome.summary is not None else ()
    yield from sections_of("Other failures met on the way", items(others), level=3, weight=3)
    if outcome.backend_fallbacks:
        head, *lines = outcome.backend_fallbacks
        yield from sections_of("Fallbacks of the backend", prose(f"{head}:"), items(lines), level=3, weight=2)
    skipped = (outcome.minimal or outcome.case).state.skipped
    yield from sections_of("State that could not be saved", items(skipped), level=3, weight=2)
    yield from sections_of("Other failing graphs of the script", items(outcome.others), level=3, weight=3)


def _errors(outcome: Outcome) -> Iterable[Section]:
    """Show the tracebacks of this tool's own errors, on a click."""
    if outcome.errors:
        said = "These are no errors of the backend. minify went on without the steps that they ended."
        traces = (folded("an error of minify", fence(error)) for error in outcome.errors)
        yield Section("Errors of minify itself", (said, *traces), 3, 6)


def _versions(outcome: Outcome, original: Outcome) -> Iterable[Section]:
    import torch

    backend, check = outcome.case.backend, outcome.verification
    runs = (*check.runs, *filter(None, [check.control])) if check is not None else ()
    beside = imported_beside_torch(_failing_packages(original.case).union(*(run.packages for run in runs)))
    rows = [
        ("torch", torch.__version__),
        ("backend", f"{backend.name} ({backend.distribution} {backend.version})" if backend.distribution else ""),
        ("imported beside torch", ", ".join(beside)),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("torch-minify", version("torch-minify")),
    ]
    more = folded("torch.utils.collect_env", fence(outcome.environment)) if outcome.environment else ""
    return sections_of("Versions", table(("", ""), [row for row in rows if row[1]]), more)


def _failing_packages(case: Case) -> set[str]:
    """Return the top-level modules that the failure and the backend name: no interpreter may have imported them."""
    fingerprint, backend = case.failure.fingerprint, case.backend
    frames = [frame.module for frame in (fingerprint.site, fingerprint.raising) if frame is not None]
    lines = (*backend.ahead, *backend.imports, *case.script.imports)
    return {name.partition(".")[0] for name in (*frames, *fingerprint.types)} | packages_imported(*lines)
