"""What was measured, as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from measuring import CASES, MINIFY, TORCH, Row, told_of

_HEADINGS = (
    "case", "who", "repro fails alike", "ops", "elements", "repro lines", "probes", "/ bound", "wall s", "/ script",
    "/ torch's", "peak MiB", "end",
)  # fmt: skip


def _number(value: float | None, form: str = ",.0f") -> str:
    return "?" if value is None else format(value, form)


def _cells(row: Row, torch_seconds: float | None) -> list[str]:
    bound = row.bound
    return [
        "",
        row.who,
        row.repro or "-",
        f"{_number(row.ops_before)} → {_number(row.ops_after)}",
        _number(row.elements),
        _number(row.lines),
        ("≥ " if row.at_least else "") + _number(row.probes),
        "?" if not bound or row.probes is None else f"{row.probes / bound:.1f}",
        f"{row.seconds:.1f}",
        f"{row.times:.1f}",
        "" if torch_seconds is None or row.who == TORCH else f"1/{torch_seconds / row.seconds:.0f}",
        f"{row.mebibytes:,.0f}",
        row.ended,
    ]


def table(rows: Sequence[Row], own: Mapping[str, float]) -> str:
    """One line for each tool on each case."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "|" + " --- |" * len(_HEADINGS)]
    theirs = told_of(rows, TORCH)
    for name, seconds in own.items():
        cells = [name, "the script by itself", *[""] * 6, f"{seconds:.1f}", "1.0", "", "", ""]
        lines.append("| " + " | ".join(cells) + " |")
        torch = theirs[name].seconds if name in theirs and theirs[name].verified else None
        lines += ["| " + " | ".join(_cells(row, torch)) + " |" for row in rows if row.case == name]
    return "\n".join(lines)


def phases(rows: Sequence[Row]) -> str:
    """Where the time of `minify run` goes."""
    names = ("capture", "reduce", "verify", "rest")
    lines = ["| case | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 1)]
    for row in rows:
        if row.who == MINIFY and row.phases:
            lines.append(f"| {row.case} | " + " | ".join(f"{row.phases[name]:.1f}" for name in names) + " |")
    return "\n".join(lines)


def _met(met: bool) -> str:
    return "met" if met else "**not met**"


def _met_by_all_but(names: Sequence[str]) -> str:
    return _met(not names) + (f" by {', '.join(names)}" if names else "")


def targets(rows: Sequence[Row]) -> str:
    """What is to be reached, and whether it was."""
    ours, theirs = told_of(rows, MINIFY), told_of(rows, TORCH)
    told = []
    for what, wanted, most in (("Python backends", False, 2.0), ("inductor", True, 2.5)):
        times = [row.times for name, row in ours.items() if name in CASES and (CASES[name].after == "aot") is wanted]
        if times:
            middle = median(times)
            said = f"Wall time over the script's own, {what}: median {middle:.2f}; at most {most}: "
            told.append(f"{said}{_met(middle <= most)}.")
    verified = [name for name in ours if name in theirs and theirs[name].verified]
    if verified:
        faster = median(theirs[name].seconds / ours[name].seconds for name in verified)
        said = f"Times faster than torch's minifier where that succeeds ({len(verified)} of {len(theirs)}): median "
        told.append(f"{said}{faster:.0f}; at least 20: {_met(faster >= 20)}.")
    for what, holds in _OF_EACH.items():
        told.append(f"{what}: {_met_by_all_but([name for name, row in ours.items() if not holds(row)])}.")
    larger = [name for name, row in ours.items() if name in theirs and _is_larger(row, theirs[name])]
    told.append(f"Never larger than torch's result: {_met_by_all_but(larger)}.")
    return "\n".join(f"- {line}" for line in told)


def _within_bound(row: Row) -> bool:
    return row.probes is None or not row.bound or row.probes <= 1.3 * row.bound + 2 * row.planted + 8


def _is_larger(row: Row, other: Row) -> bool:
    return bool(other.ops_after and row.ops_after and row.ops_after > other.ops_after)


_OF_EACH: dict[str, Callable[[Row], bool]] = {
    "Probes at most 1.3 log2 C(n, m) + 2 m + 8": _within_bound,
    "Exactly the planted ops": lambda row: row.ops_after == row.planted,
    "Faults of one op with inputs of at most 16 elements": lambda row: row.planted != 1 or (row.elements or 0) <= 16,
}


def picture(rows: Sequence[Row], path: Path) -> None:
    """Size over probes, one small plot a case."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "minify"  # the same picture for the same numbers
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row.case for row in rows if row.sizes))
    if not names:
        return
    columns = 3
    figure, axes = plt.subplots(
        -(-len(names) // columns), columns, figsize=(11, 2.4 * -(-len(names) // columns)), squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for name, axis in zip(names, axes.flat, strict=False):
        for row in rows:
            if row.case == name and row.sizes:
                axis.step(range(1, len(row.sizes) + 1), row.sizes, where="post", label=row.who)
        axis.set_yscale("log")
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
        if sum(row.case == name and bool(row.sizes) for row in rows) > 1:
            axis.legend(fontsize=6)
    figure.supxlabel("probes", fontsize=9)
    figure.supylabel("ops of the smallest failing candidate", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
