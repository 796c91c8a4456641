"""The texts of a script after one edit of some passes."""

import textwrap

import torch  # noqa: F401 - whose modules an import may name

from minifier.repro.source.passes import COARSE_PASSES, FINE_PASSES, LAST_PASSES
from minifier.repro.source.script import Script


def edited(text, *passes):
    """Return the script after each edit of these passes, all of them by default."""
    script = Script(textwrap.dedent(text).lstrip("\n"))
    rows = [each for each in (*COARSE_PASSES, *FINE_PASSES, *LAST_PASSES) if not passes or each.name in passes]
    texts = [script.after([edit]) for row in rows for edit in row.edits(script) if script.key(edit)]
    return [code for code in texts if code is not None]
