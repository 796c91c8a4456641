"""The texts of a script after one edit of some passes."""

import textwrap

import libcst as cst

from minifier.source.passes import PASSES

FORMS = ("classes", "tuples", "targets", "aliases", "displays", "returns")


def edited(text, *passes):
    """Return the script after each edit of these passes, all of them by default."""
    module = cst.parse_module(textwrap.dedent(text).lstrip("\n"))
    results = [result for each in PASSES if not passes or each.name in passes for result in each.edits(module)]
    return [result.code for result in results if result.code is not None]
