"""How a candidate of a script is run: it counts only if it passes in eager mode, and its random numbers are seeded."""

import pytest
import torch
from vocabulary import in_child

from minifier.failure import Verdict
from minifier.probe.verdicts import seen
from minifier.source.probe import SourceLab, in_eager, seeded

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


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\nx = 1\n", "import torch\n\ntorch.manual_seed(0)\nx = 1\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\nimport torch\nfrom torch import nn\n\nx = 1\n',
            '"""Doc."""\nfrom __future__ import annotations\nimport torch\nfrom torch import nn\n\n'
            "torch.manual_seed(0)\n\nx = 1\n",
        ),
        ("from torch import nn\n", "from torch import nn\n"),
        ("import torch as th\n", "import torch as th\n"),
    ],
)
def test_the_seed_is_set_after_the_first_imports(source, expected):
    assert seeded(source) == expected


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(120)
def test_each_probe_draws_the_numbers_of_the_seed(tmp_path):
    source = "import torch\nif not torch.equal(x, torch.randn(3)):\n    raise SystemExit(1)\n"
    torch.manual_seed(0)
    drawn = torch.randn(3).tolist()

    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        text = source.replace("x,", f"torch.tensor({drawn}),")
        return seen(lab.run(text), ()), seen(lab.run(f"import torch\ntorch.manual_seed(1)\n{text}"), ()).line

    assert in_child(work, tmp_path, 100) == (None, "exit: exit status 1")


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
