"""The table of silent wrong results: programs in which torch.compile computes something else, and nobody looks.

`scale.py --write` writes it. The classes of causes are those of a study of such bugs, arXiv 2604.08720.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("SILENT.md")
NOTHING = 1  # the exit code where nothing is noticed
# By the study's class: what the report names as at fault.
CAUSES: Mapping[str, str] = {
    "tracing": "Dynamo",
    "symbolic": "Dynamo|inductor",
    "reuse identity": "Dynamo|AOTAutograd",
    "aliasing/mutation": "Dynamo|AOTAutograd",
    "decomposition": "decomposition",
    "graph optimisation": "pass",
    "type promotion": "decomposition|lowering",
    "kernel codegen": "lowering|code",
    "layout": "lowering|pass|decomposition|AOTAutograd",
}
_HEADINGS = ("program", "what happens", "cause", "noticed", "reached", "left", "at fault", "named", "/ script")
_Row = Mapping[str, Any]


def is_noticed(row: _Row) -> bool:
    """Whether the run noticed a failure."""
    return bool(row["exit"] != NOTHING and row["status"])


def names_cause(row: _Row) -> bool:
    """Whether what the report names as at fault belongs to the study's class."""
    return bool(is_noticed(row) and row["part"] and re.search(CAUSES[row["cause"]], row["part"]))


def write_table(rows: Mapping[str, _Row], release: str) -> None:
    """Put the rows of programs with a cause into SILENT.md, whose rows of other programs stay."""
    found = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    lines = {match[1]: line for line in found if (match := re.match(r"\| \[(\w+)\]", line))}
    lines |= {name: _line(name, row) for name, row in rows.items() if row["cause"]}
    if not lines:
        return
    cells = {name: [cell.strip() for cell in line.strip("|").split(" | ")] for name, line in lines.items()}
    times = sorted(float(row[-1]) for row in cells.values())
    facts = [f"{_share(row[place] for row in cells.values())} {word}" for place, word in _FIGURES]
    by_class = [f"- {cause}: {_of_class(cause, cells.values())}" for cause in CAUSES if _has(cause, cells.values())]
    text = (
        "# Silent wrong results\n\nMade by `python benchmarks/scale.py --write`, with torch "
        f"{release}: {len(cells)} programs, {', '.join(facts)}, in a median of {times[len(times) // 2]:.1f} times the "
        "script's own time. No program checks itself.\n\n" + "\n".join(by_class) + "\n\n"
    )
    head = "| " + " | ".join(_HEADINGS) + " |\n|" + " --- |" * len(_HEADINGS) + "\n"
    TABLE.write_text(text + head + "".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")


_FIGURES = ((3, "noticed"), (4, "reached"), (7, "with the cause named"))


def _line(name: str, row: _Row) -> str:
    words = [f"[{name}]({row['source']})", row["what"], row["cause"], _said(is_noticed(row)), _said(not row["missed"])]
    words += ["" if row["size"] is None else str(row["size"]), row["part"] or "", _said(names_cause(row))]
    return "| " + " | ".join(word.replace("|", "\\|") for word in [*words, f"{row['times']:.1f}"]) + " |"


def _said(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _share(cells: Iterable[str]) -> str:
    found = [cell == "yes" for cell in cells]
    return f"{sum(found) / len(found):.0%}"


def _has(cause: str, rows: Iterable[list[str]]) -> bool:
    return any(row[2] == cause for row in rows)


def _of_class(cause: str, rows: Iterable[list[str]]) -> str:
    own = [row for row in rows if row[2] == cause]
    return ", ".join(f"{sum(row[place] == 'yes' for row in own)} of {len(own)} {word}" for place, word in _FIGURES)
