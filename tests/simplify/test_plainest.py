"""Backends that each refuse one thing: the reduced Case has that one thing, and all else as plain as can be."""

import shutil

import pytest
from vocabulary import Bureau

from minifier.emit.repro import Template, write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
import torch.nn.functional as F
import picky


def fn(x, y, i, w, b):
    a = x.to(torch.float16).relu().float() * y
    a = F.layer_norm(a, (48,), w, b, 1e-3)
    a = a.view(6, 20, 4, 12).transpose(1, 2)
    a = torch.matmul(a, a.transpose(-1, -2)).relu()
    a = torch.clamp(a, -0.123, 7.25).pow(3).sin()
    c = F.gelu(F.embedding(i, y[0]), approximate="tanh").to(torch.bfloat16).float()
    d = F.relu(c.transpose(0, 1) * 2).sin()
    return a.to(torch.float64).sum() + a.sum(), F.softmax(d, dim=-1), a.transpose(2, 3).relu()


i = torch.randint(0, 20, (5, 3), dtype=torch.int32)
w, b = torch.nn.Parameter(torch.ones(48)), torch.nn.Parameter(torch.zeros(48))
torch.compile(fn, backend="BACKEND")(torch.randn(6, 20, 48), torch.randn(6, 20, 48), i, w, b)
"""

# What is refused, and what the repro has between its imports and the call.
PLAINEST = {
    "relu": """
def fn(x):
    return x.relu()


x = torch.randn(1)
""",
    "two_elements": "x = torch.randn(2)\n",
    "multiple_of_eight": "x = torch.randn(8)\n",
    "more_than_ten": "x = torch.randn(1, 11)\n",
    "exactly_48": "x = torch.randn(48)\n",
    "three_dims": "x = torch.randn(1, 1, 1)\n",
    "view_to_heads": """
    return x.view(1, 1, 3)


x = torch.randn(3)
""",
    "matmul": """
    return torch.matmul(x, x)


x = torch.randn(1)
""",
    "half": "x = torch.randn(1, dtype=torch.float16)\n",
    "conversion": """
    return x.to(torch.bfloat16)


x = torch.randn(1)
""",
    "index": """
    return torch.nn.functional.embedding(x, y)


x = torch.zeros(1, dtype=torch.int64)
y = torch.randn(1, 1)
""",
    "strided": "x = torch.randn(2, 2).t()\n",
    "two_inputs": """
    return y * x


x = torch.randn(1)
y = torch.randn(1)
""",
    "product": """
    return x * x


x = torch.randn(1)
""",
    "cube": "    return x.pow(3)\n",
    "power": "    return x.pow(3)\n",
    "scale": "    return torch.clamp(x, 1.0)\n",
    "approximate": '    return torch.nn.functional.gelu(x, approximate="tanh")\n',
    "gelu": "    return torch.nn.functional.gelu(x)\n",
    "softmax": "    return torch.nn.functional.softmax(x, dim=-1)\n",
    "layer_norm": "    return torch.nn.functional.layer_norm(x, (1,))\n",
    "relu_before_sin": """
    a = x.relu()
    return a.sin()


x = torch.randn(1)
""",
    "cast_and_back": """
def fn(x):
    return x.sin()


x = torch.randn(1)
""",
    "requires_grad": "x = torch.randn(1, requires_grad=True)\n",
}


@pytest.mark.parametrize("what", PLAINEST)
def test_what_is_left(bureau: Bureau, what):
    captured = bureau.capture(SCRIPT.replace("BACKEND", f"picky_{what}"))
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    summary, case = bureau.reduce()
    assert summary.error == "" and summary.one_minimal, summary
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert PLAINEST[what] in text, text
    assert set(summary.passes.values()) == {"fixpoint"}, summary.passes
    assert summary.probes["total"] <= 45, summary.probes


# What is refused, what is needed of sizes, dtypes and the like, and what else was refused to be plainer.
NEEDED = {
    "relu": ((), ()),
    "more_than_ten": (("a size of 11 or more", "an input of 2 dimensions"), ("sizes: size 11",)),
    "multiple_of_eight": (("a size that is a multiple of 8",), ("sizes: size 8",)),
    "exactly_48": (("a size of exactly 48",), ("sizes: size 48",)),
    "three_dims": (("an input of 3 dimensions",), ("dims: first of 3 dimensions",)),
    "half": (("float16",), ("dtypes: float16",)),
    "strided": (("an input that is not contiguous", "a size of 2 or more"), ("sizes: size 2",)),
    "approximate": ((), ("arguments: approximate= of ",)),
    "requires_grad": ((), ("grad: requires_grad and grad mode",)),
}


@pytest.mark.parametrize("what", NEEDED)
def test_what_it_takes(bureau: Bureau, what):
    bureau.capture(SCRIPT.replace("BACKEND", f"picky_{what}"))
    summary, case = bureau.reduce()
    needs, refused = NEEDED[what]
    assert case.needs == needs
    assert all(any(line.startswith(each) for line in summary.needs) for each in refused), summary.needs
    assert refused or not summary.needs
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert (f"# It takes {' and '.join(needs)}.\n" in text) is bool(needs), text


def test_passes_that_are_left_out(bureau: Bureau):
    bureau.capture(SCRIPT.replace("BACKEND", "picky_gelu"))
    summary, case = bureau.reduce(skipped=("arguments", "dims"))
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert 'approximate="tanh"' in text and "torch.randn(1, 1, 1)" in text, text
    assert {name for name, end in summary.passes.items() if end == "skipped"} == {"arguments", "dims"}


def test_the_only_passes(bureau: Bureau):
    bureau.capture(SCRIPT.replace("BACKEND", "picky_gelu"))
    summary, case = bureau.reduce(passes=("data",))
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert "torch.randn(5, 3, 48)" in text, text
    assert [name for name, end in summary.passes.items() if end != "skipped"] == ["data"]


def test_passes_that_the_budget_does_not_reach(bureau: Bureau):
    bureau.capture(SCRIPT.replace("BACKEND", "picky_exactly_48"))
    whole, _ = bureau.reduce()
    shutil.rmtree(bureau.folder / "out-1")
    summary, case = bureau.reduce(max_probes=whole.probes["total"] - 3)
    assert summary.stopped_because == "the probe budget was used up" and summary.one_minimal
    assert "unfinished" in summary.passes.values() and summary.probes["total"] <= whole.probes["total"] - 3
    assert "relu()" in write_repro(case, Template.COMPILE_FUNCTION).text


def test_passes_that_would_take_longer_than_they_are_worth(bureau: Bureau, monkeypatch):
    for limit in ("_LEAST_PATIENCE", "_TIMES_THE_SEARCH"):
        monkeypatch.setattr(f"minifier.reduction.simplify.{limit}", 0.0)
    bureau.capture(SCRIPT.replace("BACKEND", "picky_exactly_48"))
    summary, case = bureau.reduce()
    assert (summary.stopped_because, summary.one_minimal, case.needs) == ("", True, ())
    assert set(summary.passes.values()) == {"unfinished"} and summary.probes["total"] < 15
    shutil.rmtree(bureau.folder / "out-1")
    summary, case = bureau.reduce(budget=30)
    assert set(summary.passes.values()) == {"fixpoint"} and case.needs == ("a size of exactly 48",)
