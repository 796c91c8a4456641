"""A candidate of a script counts only if it passes in eager mode."""

import pytest
from vocabulary import in_child

from minifier.failure import Verdict
from minifier.probe.verdicts import seen
from minifier.source.probe import SourceLab, in_eager

STANCE = 'import torch; torch.compiler.set_stance("force_eager")'
FAILING = """
import torch

def depth(n):
    if n == 0:
        return 0
    return depth(n - 1) + 1

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x + depth(3)

f(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ("import torch\n", 1),
        ('"""Doc."""\nfrom __future__ import annotations\nimport os\n', 3),
        ('"""Doc\nin lines."""\nimport os\n', 3),
        ("# a comment\nimport os\n", 1),
        ("", 1),
    ],
)
def test_the_stance_is_set_where_a_statement_may_come_first(source, first):
    lines = in_eager(source).splitlines()
    assert lines[first - 1] == STANCE and [line for line in lines if line != STANCE] == source.splitlines()
    compile(in_eager(source), "repro.py", "exec")


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(120)
def test_a_failure_that_eager_shows_too_is_none(tmp_path):
    """Without its base case the function recurs for ever, with torch.compile or without."""
    smaller = FAILING.replace("    if n == 0:\n        return 0\n", "").replace("    torch._dynamo.graph_break()\n", "")

    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None, match="")
        lab.sought = seen(lab.run(FAILING), ()).fingerprint
        return lab.holds([FAILING, smaller]), lab.counts[Verdict.INVALID]

    assert in_child(work, tmp_path, 100) == ([True, False], 1)


EXITS = "import sys, torch\nsys.exit({})\n"


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("code", "line"), [("3", "exit: exit status 3"), ("'bad'", "exit: exit status 1"), ("0", None)]
)
def test_a_source_that_exits_with_an_error_fails(tmp_path, code, line):
    def work():
        failure = seen(SourceLab(tmp_path, tmp_path / "journal.jsonl", None).run(EXITS.format(code)), ())
        return None if failure is None else failure.line

    assert in_child(work, tmp_path, 90) == line
