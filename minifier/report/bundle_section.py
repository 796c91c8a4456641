"""The report's section about bundle.zip: what is in it, and why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minifier.report.blocks import Block, Items, Section, Text, sections_of
from minifier.report.bundle import BUNDLE, Plan
from minifier.report.secret_constants import SecretConstant

_UNITS = ("bytes", "KiB", "MiB", "GiB")


def said_size(size: int) -> str:
    """Return a size in bytes with a unit."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def bundle_section(plan: Plan, constants: Sequence[SecretConstant], is_allowed: bool) -> Iterable[Section]:
    """Return the section. `plan` has the entries beside the reports, whose sizes are known once they are written."""
    blocks: list[Block] = []
    if constants:
        where = ", ".join(map(str, constants))
        blocks.append(Text(f"Constants of `repro.py` look like secrets, and the failure needs them: {where}."))
    if constants and not is_allowed:
        blocks.append(Text(f"So there is no {BUNDLE}: `minify report FOLDER --bundle-private` writes it all the same."))
    else:
        sizes = [(entry.name, said_size(entry.size)) for entry in plan.entries]
        items = tuple(f"`{name}`, {size}" for name, size in sizes)
        blocks.append(Items(("`report.md`, this report", "`report.html`, this report with pictures", *items)))
    return sections_of(f"Files in {BUNDLE}", *blocks, level=3, weight=1)
