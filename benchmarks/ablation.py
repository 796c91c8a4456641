"""Leave out one rule after the other, and note what gets worse: a rule has to change a row.

    python benchmarks/ablation.py --of messages     rules that take out of a message what varies, over pairs of messages
    python benchmarks/ablation.py --of secrets      shapes of secrets, over planted secrets
    python benchmarks/ablation.py --of passes --rows new.json     passes over graphs and scripts, over programs
    python benchmarks/ablation.py --of starts --rows new.json     starts of reductions and repros, over programs
    ... --only REGEX                                rules, or programs, whose names have this in them

Each writes its table in notes/rules.md anew; see README.md beside this file. A pass or a start is left out over
programs that took it when `scale.py` ran them, which `--rows` tells. Two that get worse are enough for it: the quickest
are asked first, and no more than six.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
import scale
from programs import ROOT, Program, programs

_UNNAMED = ("ops", "data", "definitions")  # passes whose probes are not named in the journal
_ALL = "all at once"  # the phase of the reduction that takes several passes in a probe
_ENOUGH = 2  # programs that get worse, of a pass or a start
_MAX_ASKED = 6  # programs
PAGE = ROOT / "notes" / "rules.md"
Losses = Iterator[tuple[str, list[str]]]
"""Yields a rule, and what gets worse without it."""


def of_messages(only: re.Pattern[str], _rows: Path | None) -> Losses:
    """Leave out a rule of the normaliser; the losses are pairs of messages that are judged wrongly."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "failure")]
    normaliser = importlib.import_module("minifier.data.failure.normalise")
    pairs = importlib.import_module("test_messages").wrong_pairs
    whole = {source for source, *_ in pairs()}
    for table in ("_REPLACEMENTS", "_TAILS", "_DUMPED_LINES"):
        rules = getattr(normaliser, table)
        for name in filter(only.search, list(rules)):
            setattr(normaliser, table, {key: rule for key, rule in rules.items() if key != name})
            yield name, sorted({source for source, *_ in pairs()} - whole)
            setattr(normaliser, table, rules)


def of_secrets(only: re.Pattern[str], _rows: Path | None) -> Losses:
    """Leave out the shapes of a kind of secret; the losses are kinds of planted secrets of which one is seen."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "report")]
    secrets = importlib.import_module("minifier.repro.report.secrets")
    seen = importlib.import_module("secret_samples").seen_kinds
    shapes, whole = secrets.SHAPES, set(seen())
    for kind in filter(only.search, dict.fromkeys(shape.kind for shape in shapes)):
        secrets.SHAPES = tuple(shape for shape in shapes if shape.kind != kind)
        yield kind, [each for each in seen() if each not in whole]
    secrets.SHAPES = shapes


def of_passes(only: re.Pattern[str], rows: Path | None) -> Losses:
    """Leave out a pass over the programs that are reduced at its level, and that take it.

    The losses are those that `scale.py --diff` tells, and any op, statement or line more, or else characters of code.
    """
    whole = _whole(only, rows)
    for level, table in (("dynamo", "reduction.passes"), ("source", "repro.source.passes")):
        module = importlib.import_module(f"minifier.{table}{'.table' if level == 'dynamo' else ''}")
        for name, _ in module.TABLE:
            takes = [
                (program, row)
                for program, row in whole
                if row["level"] == level and (name in _UNNAMED or not {name, _ALL}.isdisjoint(row["passes"]))
            ]
            takes.sort(key=lambda pair: name not in pair[1]["passes"])  # "all at once" may have been without it
            yield f"{name} ({level})", _losses(takes, "--skip-pass", name)


def of_starts(only: re.Pattern[str], rows: Path | None) -> Losses:
    """Leave out a start; the losses are of the programs that take it. One that no program takes changes nothing."""
    whole = _whole(only, rows)
    for start in importlib.import_module("minifier.flow.starts").STARTS:
        without = f"starts.STARTS = tuple(each for each in starts.STARTS if each.name != {start.name!r})"
        tool = "-c", f"from minifier.flow import starts; {without}; from minifier.flow.cli.entry import main; main()"
        if not start.is_usual:
            yield start.name, _losses([each for each in whole if start.name in each[1]["fallbacks"]], tool=tool)


def _whole(only: re.Pattern[str], path: Path | None) -> list[tuple[Program, scale.Row]]:
    """Return the programs of a run of `scale.py` that ended with a repro, with their rows; the quickest first."""
    if path is None:
        raise click.UsageError("which programs take it is told by --rows, the output of scale.py")
    rows = json.loads(path.read_text(encoding="utf-8"))
    known = [(each, rows[each.name]) for each in programs() if each.name in rows and only.search(each.name)]
    return sorted((pair for pair in known if pair[1]["repro"]), key=lambda pair: pair[1]["script"] * pair[1]["times"])


def _losses(
    takes: Sequence[tuple[Program, scale.Row]], *options: str, tool: Sequence[str] = ("-m", "minifier")
) -> list[str]:
    losses: list[str] = []
    for program, row in takes[:_MAX_ASKED]:
        if len(losses) < _ENOUGH and (told := _worse(row, _run(program, *options, tool=tool))):
            losses.append(f"{program.name} ({told})")
    return losses


def _run(program: Program, *options: str, tool: Sequence[str] = ("-m", "minifier")) -> scale.Row:
    run = f"{' '.join(options)} --verify 1 {program.facts.get('run', '')}"
    with tempfile.TemporaryDirectory(prefix="minify-ablation-") as folder:
        return scale.run(replace(program, facts={**program.facts, "run": run}), Path(folder), tool)


def _worse(old: scale.Row, new: scale.Row) -> str:
    if old["repro"] and not new["repro"]:
        return "no repro"
    told = ", ".join(f"{key} {old[key]} -> {new[key]}" for key in ("size", "lines") if new[key] > old[key])
    before, after = (len(re.sub("^#.*", "", row["repro"], flags=re.MULTILINE)) for row in (old, new))
    return told or (f"code {before} -> {after} characters" if after > before else "")


OF: dict[str, Callable[[re.Pattern[str], Path | None], Losses]] = {
    "messages": of_messages,
    "secrets": of_secrets,
    "passes": of_passes,
    "starts": of_starts,
}


def write(subject: str, rows: Mapping[str, Sequence[str]]) -> None:
    """Put the rows of a subject into notes/rules.md; those of other rules stay."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(f"## {subject}\n")
    old, separator, after = rest.partition("\n## ")
    found = dict(re.findall(r"^\| (.+?) \| (.*) \|$", old, re.MULTILINE)[2:])
    for rule, losses in rows.items():
        found[rule] = "; ".join(losses[:3]) + (f"; {len(losses) - 3} more" if len(losses) > 3 else "")
    table = "".join(f"| {rule} | {losses or '**nothing**'} |\n" for rule, losses in found.items())
    text = f"{head}## {subject}\n\n| without | gets worse |\n| --- | --- |\n{table}{separator}{after}"
    PAGE.write_text(text, encoding="utf-8")


@click.command(help=__doc__)
@click.option("--of", "subject", type=click.Choice(list(OF)), required=True)
@click.option("--only", default="", metavar="REGEX")
@click.option("--rows", type=click.Path(path_type=Path, exists=True), metavar="JSON")
def main(subject: str, only: str, rows: Path | None) -> None:
    """Leave out the rules of a subject, and write their table."""
    found = {}
    for rule, losses in OF[subject](re.compile(only), rows):
        found[rule] = losses
        click.echo(f"{rule}: {json.dumps(losses)}", err=True)
        write(subject, found)
    click.echo(f"{sum(not losses for losses in found.values())} of {len(found)} rules change nothing.")


if __name__ == "__main__":
    main()
