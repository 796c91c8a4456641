"""Backends and functions that a script itself defines: captured, sliced out, reduced, written down, and run alone."""

import ast

import pytest
from layers import sampled
from minified_scripts import minified

pytestmark = pytest.mark.timeout(150)

HEAD = """
import torch

UNSUPPORTED = {"tanh": "no table"}


class LoweringError(RuntimeError):
    pass


def check(gm):
    for node in gm.graph.nodes:
        name = getattr(node.target, "__name__", "").partition(".")[0]
        if name in UNSUPPORTED:
            raise LoweringError(f"{name}: {UNSUPPORTED[name]}")


def unrelated():
    return "not part of it"


"""
TAIL = """


def fn(x):
    x = torch.relu(x.sin()) + 1
    x = torch.tanh(x)
    return x.exp().sum()


torch.compile(fn, backend=BACKEND)(torch.randn(4))
"""
PLAIN = "def strict(gm, inputs):\n    check(gm)\n    return gm.forward"
# (what the script defines, what it gives as backend=)
BACKENDS = {
    "a function with the name of one of a template's": (PLAIN.replace("strict", "compiled"), "compiled"),
    "a method of an object that has a name": (
        "class Strict:\n    def lower(self, gm, inputs):\n        check(gm)\n\n\nmine = Strict()",
        "mine.lower",
    ),
}


@pytest.mark.parametrize("form", sampled(BACKENDS, 8))
def test_a_backend_that_the_script_defines(processes, tmp_path, form):
    defined, given = BACKENDS[form]
    text = minified(tmp_path, HEAD + defined + TAIL.replace("BACKEND", given))
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword) and node.arg == "backend"]
    assert given in [ast.unparse(call.value) for call in calls]
    assert "UNSUPPORTED = " in text and "LoweringError" in text and "unrelated" not in text and "relu" not in text


MADE_IN_A_FUNCTION = """
import torch


class Rules:
    def __init__(self):
        self.table = {}

    def register(self, op, shift):
        self.table[op] = shift


def lower(gm, rules, log):
    log.append(gm)
    shift = sum(rules.table.get(node.target, 0) for node in gm.graph.nodes)

    def run(*args):
        return tuple(out + shift for out in gm.forward(*args))

    return run


def train(model, steps):
    rules, log = Rules(), []
    rules.register(torch.nn.functional.softplus, 0.5)
    compiled = torch.compile(model, backend=lambda gm, args: lower(gm, rules, log))
    with torch.no_grad():
        for _ in range(steps):
            compiled(torch.randn(4))
    return log


def main():
    model = torch.nn.Sequential(torch.nn.Softplus(), torch.nn.Hardtanh())
    print(len(train(model, steps=2)))


main()
"""


def test_a_backend_with_a_wrong_result_that_a_function_made(processes, tmp_path):
    text = minified(tmp_path, MADE_IN_A_FUNCTION, plain=False)
    (made,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == "make_backend")
    assert [ast.unparse(statement) for statement in made.body] == [
        "rules, log = (Rules(), [])",
        "rules.register(torch.nn.functional.softplus, 0.5)",
        "return lambda gm, args: lower(gm, rules, log)",
    ]
    assert "Hardtanh" not in text and "hardtanh" not in text
