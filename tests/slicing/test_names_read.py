"""Names that a source reads and nothing in it binds."""

import pytest

from minifier.capturing.slicing.module_statements import missing_names
from minifier.reduction.probe.verdicts import seen
from minifier.repro.source.probe import SourceLab


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("print(x)", {"x"}),
        ("def f(a, *b, c=d, **e):\n    g = a\n    return g, b, e, h", {"d", "h"}),
        ("class A(B):\n    x = 1\n    def f(self):\n        return x, self.y", {"B", "x"}),
        ("import a.b, c as d\nfrom e import f\na, d, f", set()),
        ("for i in [j for j in k]:\n    lambda m: (m, i, n)", {"k", "n"}),
        ("def f():\n    global x\n    x = 1\nf()\nx", set()),
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        return x, y\n    return g\nx", {"x", "y"}),
        ("with a as b:\n    pass\ntry:\n    b\nexcept c as d:\n    d", {"a", "c"}),
        ("if (x := 1):\n    x\nmatch x:\n    case [y, *z]:\n        y, z", set()),
        ("__file__, __name__, len", set()),
        ("from a import *\nx", set()),
    ],
)
def test_missing_names(text, missing):
    assert missing_names(text) == missing


def test_what_is_not_python():
    with pytest.raises(SyntaxError):
        missing_names("def f(:")


FAILING = """
import torch
two = 2

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x * two

f(torch.ones(2))
"""


@pytest.mark.timeout(120)
def test_what_cannot_pass_is_not_probed(tmp_path, forked):
    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None, match="")
        lab.sought = seen(lab.run(FAILING), ()).fingerprint
        texts = [FAILING, FAILING.replace("two = 2\n", ""), FAILING.replace("two = 2", "two = ")]
        return lab.holds(texts), lab.total

    assert forked(work, 100) == ([True, False, False], 1)
