"""From the text of a failing script to a repro of one op that shows its failure alone."""

from __future__ import annotations

from pathlib import Path

from vocabulary import minified_here, source_of

from minifier.reduction.passes.table import DEFINITIONS, OF_VALUES


def minified(folder: Path, text: str, ops: int = 1, *, plain: bool = True) -> str:
    """The verified repro of a script of this text, its only failing graph reduced to so many ops.

    Sizes, dtypes, arguments and definitions are as in the script unless `plain`.
    """
    script = folder / "failing.py"
    script.write_text(source_of(text))
    outcome = minified_here(script, folder, verify=1, skipped=() if plain else (*OF_VALUES, DEFINITIONS[0]))
    assert outcome.repro is not None, outcome.reason
    assert outcome.repro.template is not None and not outcome.others, "a script, and not one of its graphs, was reduced"
    assert outcome.summary.ops_after == ops, outcome.summary
    return outcome.repro.text
