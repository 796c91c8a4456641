"""What a script does not need goes before what has to be compiled to know: statements that do nothing, objects that
only hold others."""

import copy

import torch

from minifier import search
from minifier.repro.source.reduce import reduce_source
from tests.source.fake_lab import FakeLab

HELD = """\
import torch
import torch.nn as nn


class LowRank(nn.Module):
    def __init__(self, base, rank, scale=1.0):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank)
        self.scale = scale

    def forward(self, x):
        return self.base(x) + self.scale * self.down(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(x)


class Tenants:
    def __init__(self, model):
        self.model, self.adapters = model, {}

    def add(self, name, rank):
        adapters = []
        for block in self.model:
            adapters.append(LowRank(block.out, rank))
        self.adapters[name] = adapters

    def mount(self, name):
        for block, adapter in zip(self.model, self.adapters[name]):
            block.__dict__["out"] = adapter


def answer(model, x):
    with torch.no_grad():
        return model(x)


def main():
    model = nn.Sequential(Block(4), Block(4)).eval()
    tenants = Tenants(model)
    tenants.add("alpha", 4)
    served = torch.compile(model, backend="eager")
    x = torch.ones(2, 4)
    base = answer(served, x)
    tenants.mount("alpha")
    assert not torch.equal(base, answer(served, x)), "no effect"


if __name__ == "__main__":
    main()
"""


def unguarded(model, *, backend):
    """Return a model that stays as it is at its first call, as in code that Dynamo compiled without a guard."""
    compiled = []

    def call(*arguments):
        compiled.extend([] if compiled else [copy.deepcopy(model)])
        return compiled[0](*arguments)

    return call


def ended(source):
    try:
        exec(compile(source, "repro.py", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return str(error)
    return ""


def test_objects_that_only_hold_others_go(monkeypatch):
    def accepts(source):
        if "assert not torch.equal(" not in source:
            return False
        with monkeypatch.context() as patched:
            patched.setattr(torch, "compile", lambda model, *, backend: model)
            if ended(source):
                return False
            patched.setattr(torch, "compile", unguarded)
            return ended(source) == "no effect"

    lab = FakeLab(accepts)
    done = reduce_source(lab, HELD, (), search.Budget())
    assert done.minimal and done.statements <= 17, done.source
    assert not any(name in done.source for name in ("Tenants", "LowRank", "answer", "scale"))


def test_a_statement_that_an_edit_leaves_idle_goes_ahead_of_all_other_edits():
    def accepts(source):
        is_bound = "a.base = b" in source
        is_large = any(f"fail({number}" in source for number in range(500, 1001))
        return is_large and (is_bound or "a.base" not in source)

    def reduced(most):
        lab = FakeLab(accepts)
        budget = search.Budget(max_probes=most)
        text = "a.base = b\nfail(1000, a.base)\n"
        return reduce_source(lab, text, (), budget, wants=lambda name: name in ("elements", "numbers")), lab.asked_texts

    _, asked = reduced(None)
    assert reduced(asked.index("a.base = b\nfail(1000)\n") + 3)[0].source == "fail(1000)\n"
