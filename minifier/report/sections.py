"""Compose a report from a finished run, in the order of PyTorch's own bug report form."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from minifier.case import BackendSource, Case, Level
from minifier.failure.normalise import headline
from minifier.process.distributions import imported_beside_torch
from minifier.process.progress import counted
from minifier.report.blocks import Block, Code, Drawing, Folded, Items, Report, Section, Table, Text, sections_of
from minifier.report.changed_inputs import free_aspects
from minifier.report.drawing import boxes_of, mermaid, op_kinds
from minifier.report.failure_text import both_errors, duplicates, sentence_of, title_of
from minifier.report.history import Probed, steps_of
from minifier.report.outcome import Outcome
from minifier.report.pictures import draw_reduced, overview, size_over_probes
from minifier.report.privacy import without_private_paths

_MOST_DRAWN = 60  # nodes; a larger graph is not drawn
_MOST_KINDS = 24
_OF_OPS = ("bypass", "pairs", "merge", "together")  # passes whose rejections repeat that no op can go
_REACHED = {
    BackendSource.REGISTERED: "registered by name",
    BackendSource.ENTRY_POINT: "an entry point of the group torch_dynamo_backends",
    BackendSource.IMPORTED: "an object that is imported",
    BackendSource.EXPRESSION: "made by a call",
    BackendSource.DEFINED: "defined or made in the repro itself",
    BackendSource.NONE: "out of reach of a fresh interpreter",
}


def report_of(outcome: Outcome, history: Sequence[Probed] = ()) -> Report:
    """Return the whole report. `history` has the probes of the run."""
    return Report(
        title_of(outcome.minimal or outcome.case),
        (
            *sections_of("Describe the bug", Text(sentence_of(outcome)), *_course(outcome)),
            *_what_fails(outcome),
            *_needs(outcome),
            *_nearest(outcome),
            *_divergent_ops(outcome),
            *_repro(outcome),
            *both_errors(outcome),
            *_reduced_graph(outcome),
            *_original_graph(outcome),
            *_how(outcome, history),
            *_met(outcome),
            *duplicates(outcome.minimal or outcome.case),
            *_versions(outcome),
        ),
    )


def _course(outcome: Outcome) -> Iterable[Block]:
    case = outcome.minimal or outcome.case
    if case.rate < 1:
        yield Text(f"It is flaky: it shows in about {case.rate:.0%} of all attempts.")
    yield Text(_minimality(outcome))
    if outcome.fallbacks:
        yield Text(f"Fallbacks taken: {'; '.join(outcome.fallbacks)}.")


def _minimality(outcome: Outcome) -> str:
    summary = outcome.summary
    if summary is None:
        return "The graph was not reduced."
    text = f"From {outcome.size_before} {outcome.parts} to {summary.ops_after} in {summary.probes['total']} probes. "
    if summary.stopped_because and not summary.one_minimal:
        return text + f"Not proved minimal: {summary.stopped_because}."
    if outcome.case.level is Level.SOURCE:
        text += (
            "Minimal: each remaining statement was taken out alone, and the failure was gone every time. A definition "
            "of the backend counts as one statement: it stays unchanged."
        )
    else:
        text += (
            "Each remaining op was taken away alone, together with the ops that only pick from its results, and the "
            "failure was gone every time."
        )
    if summary.unanswered:
        text += f" But {counted(summary.unanswered, 'candidate')} gave no answer, also when asked again."
    if summary.unfinished:
        text += f" These passes were cut off, so that more might go: {', '.join(summary.unfinished)}."
    return text


def _what_fails(outcome: Outcome) -> Iterable[Section]:
    """List how each control backend fared on the same graph, and describe the failing backend."""
    case = outcome.minimal or outcome.case
    if case.level is Level.SOURCE or case.while_tracing:
        return ()
    sought = case.failure.fingerprint
    fails = f"fails ({sought.stage.value}, {sought.kind.value})"
    rows = [(f"`{name}`", how) for name, how in (outcome.summary.backends if outcome.summary is not None else ())]
    compared = Table(("backend", "the same graph"), (*rows, (f"`{case.backend.name}`", fails))) if rows else None
    return sections_of("The backend", compared, _reference(case), level=3, weight=1)


def _reference(case: Case) -> Table:
    backend = case.backend
    package = f"{backend.distribution} {backend.version or ''}".strip() if backend.distribution else "none"
    rows = [
        ("name", f"`{backend.name}`"),
        ("distribution", package),
        ("found by", _REACHED[backend.reach]),
        *(("import", f"`{line}`") for line in (*backend.ahead, *backend.imports)),
        *([("given to torch.compile as", f"`{backend.expression}`")] if backend.expression else []),
    ]
    return Table(("", ""), tuple(rows))


def _needs(outcome: Outcome) -> Iterable[Section]:
    """List the failure's needs apart from ops: sizes, dtypes, state."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None or not summary.passes:
        return ()
    blocks: list[Block] = []
    free = free_aspects(outcome.case, case) if not summary.unfinished else ()
    if case.ahead:
        blocks.append(Text("It takes the calls of the backend ahead of the failing one, which passes alone."))
    if case.any_graph:
        blocks.append(Text("The backend fails on any graph, also on one without ops."))
    if case.needs:
        blocks.append(Text(f"{' and '.join(case.needs).capitalize()}."))
    elif free:
        blocks.append(Text(f"No particular {' or '.join(free)} of an input: changed, and the failure stayed."))
    if summary.needs:
        pairs = [(family, name) for family, _, name in (need.partition(": ") for need in summary.needs)]
        beside = tuple(f"{name} ({family})" for family, name in pairs if family not in _OF_OPS)
        if beside:
            blocks += [Text("Each of these has to stay. In its plainest form the failure was gone:"), Items(beside)]
    return sections_of("What it takes", *blocks, level=3, weight=1)


def _nearest(outcome: Outcome) -> Iterable[Section]:
    if not outcome.nearest:
        return ()
    said = Text("With this change the failure was gone:")
    return sections_of("The nearest that passes", said, Code(outcome.nearest, "diff"), level=3, weight=1)


def _divergent_ops(outcome: Outcome) -> Iterable[Section]:
    """List the ops where compiled and eager diverge, with a sentence each, if the reduction searched for them."""
    pairs = outcome.summary.parting if outcome.summary is not None else ()
    items = Items(tuple(f"`{op}`: {sentence}" for op, sentence in pairs)) if pairs else None
    return sections_of("Ops whose compiled result differs", items, level=3, weight=2)


def _repro(outcome: Outcome) -> Iterable[Section]:
    reason = Text(outcome.reason) if outcome.reason else None
    if outcome.repro is None:
        return sections_of("Minified repro", Text("There is none."), reason)
    folders = outcome.minimal.folders if outcome.minimal is not None else ()
    beside = Text("It reads values from `inputs.safetensors`, beside it.") if outcome.repro.tensors else None
    where = f"It imports modules from `{':'.join(folders)}`, which are not installed: `PYTHONPATH` has to name them."
    path = Text(where) if folders else None
    text = without_private_paths(outcome.repro.text, outcome.case.script.path)
    return sections_of("Minified repro", Code(text, "python"), beside, path, reason)


def _reduced_graph(outcome: Outcome) -> Iterable[Section]:
    case = outcome.minimal
    if case is None or case.level is Level.SOURCE or not case.graph.ops:
        return ()
    if len(case.graph.nodes) > _MOST_DRAWN:
        said = Text(f"It has {len(case.graph.nodes)} nodes, too many for a picture: `minimal/graph.json` has them.")
        return sections_of("The reduced graph", said, level=3, weight=3)
    whose = "AOTAutograd hands this graph to the backend's compiler; the repro may be the graph that it was made from."
    of_aot = Text(whose) if case.level is not Level.DYNAMO else None
    picture = Drawing(draw_reduced(case.graph), "From the inputs down to the output", mermaid(boxes_of(case.graph)))
    return sections_of("The reduced graph", of_aot, picture, level=3, weight=3)


def _original_graph(outcome: Outcome) -> Iterable[Section]:
    """Show the captured ops by kind, and mark the ops that the reduced graph still has."""
    case, minimal = outcome.case, outcome.minimal
    if case.level is Level.SOURCE or not case.graph.ops:
        return ()
    kinds = list(op_kinds(case.graph))
    left = dict(op_kinds(minimal.graph)) if minimal is not None else {}
    rows = [(f"`{name}`", str(count), str(left.get(name, ""))) for name, count in kinds[:_MOST_KINDS]]
    if len(kinds) > _MOST_KINDS:
        rows.append((f"{len(kinds) - _MOST_KINDS} more", str(sum(n for _, n in kinds[_MOST_KINDS:])), ""))
    of_it = minimal is not None and minimal.level is case.level
    kept = {node.name for node in minimal.graph.ops} if minimal is not None and of_it else set()
    picture = Drawing(overview(case.graph, kept), f"All {len(case.graph.ops)} ops; those that are left are marked")
    table = Table(("op", "as captured", "left"), tuple(rows))
    return sections_of("The graph as captured", picture, table, level=3, weight=4)


def _how(outcome: Outcome, history: Sequence[Probed]) -> Iterable[Section]:
    """Show the steps of the reduction and the size over its probes."""
    summary = outcome.summary
    blocks: list[Block] = []
    size = f"{outcome.parts} left" if outcome.case.level is not Level.SOURCE else "lines left"
    if history:
        whole = max(each.size for each in history)
        blocks.append(Drawing(size_over_probes(history, whole), f"{size.capitalize()} over probes"))
        rows = [
            (each.name, *map(_or_none, (each.probes, each.kept, each.size, each.elements)), f"{each.seconds:.2f}")
            for each in steps_of(history)
        ]
        blocks.append(Table(("step", "probes", "with the failure", size, "elements", "seconds"), tuple(rows)))
    if summary is not None:
        skipped = [name for name, end in summary.passes.items() if end == "skipped"]
        notes = [*summary.notes]
        notes += [f"skipped: {', '.join(skipped)}"] if skipped else []
        notes += [f"cut off: {', '.join(summary.unfinished)}"] if summary.unfinished else []
        blocks += [Items(tuple(notes))] if notes else []
    return sections_of("How it was reduced", *blocks, level=3, weight=5)


def _or_none(value: int | None) -> str:
    return "" if value is None else str(value)


def _other(failure: Mapping[str, Any]) -> str:
    """Describe another failure. Runs of earlier versions noted fewer fields."""
    where = f" in `{failure['where']}`" if failure.get("where") else ""
    near = ", raised at the same place by fewer ops" if failure.get("near") else ""
    ops, seen = counted(failure["ops"], "op"), counted(failure["sightings"], "time")
    return (
        f"`{failure['type']}: {headline(failure['message'])}`{where} at {ops}, seen {seen}{near}: "
        f"`minify reduce {failure['case']}` in the output folder"
    )


def _met(outcome: Outcome) -> Iterable[Section]:
    """List other failures of the search, state that could not be saved, and other failing graphs."""
    if outcome.summary is not None and outcome.summary.others:
        items = tuple(map(_other, outcome.summary.others))
        yield from sections_of("Other failures met on the way, not followed", Items(items), level=3, weight=3)
    skipped = (outcome.minimal or outcome.case).state.skipped
    if skipped:
        yield from sections_of("State that could not be saved", Items(skipped), level=3, weight=2)
    if outcome.others:
        yield from sections_of("Other failing graphs of the script", Items(outcome.others), level=3, weight=3)


def _versions(outcome: Outcome) -> Iterable[Section]:
    import torch

    backend, check = outcome.case.backend, outcome.verification
    runs = (*check.runs, *filter(None, [check.control])) if check is not None else ()
    beside = imported_beside_torch({package for run in runs for package in run.packages})
    rows = [
        ("torch", torch.__version__),
        ("backend", f"{backend.name} ({backend.distribution} {backend.version})" if backend.distribution else ""),
        ("imported beside torch", ", ".join(beside)),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("torch-minify", version("torch-minify")),
    ]
    table = Table(("", ""), tuple(row for row in rows if row[1]))
    more = Folded("torch.utils.collect_env", Code(outcome.environment)) if outcome.environment else None
    return sections_of("Versions", table, more)
