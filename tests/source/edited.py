"""The texts of a script after one edit of some passes."""

import textwrap

from minifier.repro.source.passes import PASSES
from minifier.repro.source.patches import Located, Patch, patched

FORMS = ("classes", "tuples", "targets", "aliases", "displays")


def edited(text, *passes):
    """Return the script after each edit of these passes, all of them by default."""
    located = Located(textwrap.dedent(text).lstrip("\n"))
    listers = [each.begin() for each in PASSES if not passes or each.name in passes]
    edits = [edit for lister in listers for edit in lister(located)]
    texts = [patched(located.source, edit) if isinstance(edit, Patch) else edit.code for edit in edits]
    return [code for code in texts if code is not None]
