"""The argument `backend=` of a script, and the function that makes it, where it needs variables of a function."""

import pytest
from vocabulary import source_of

from minifier.capturing.slicing.backend_text import backend_text

HEAD = source_of("""
    import torch


    def lower(gm, factor, log):
        log.append(gm)
        return gm * factor + len(log)


    class Lowering:
        def __init__(self, level):
            self.rules = {"level": level}

        def register(self, name, value):
            self.rules[name] = value

        def compile(self, gm):
            return gm * self.rules["level"] + self.rules["more"]


""")
LAMBDA = """
def main():
    log, factor = [], 3
    unused = torch.ones(2)
    torch.compile(torch.sin, backend=lambda gm: lower(gm, factor, log))(unused)
    factor = 4
"""
METHOD = """
def main():
    lowering = Lowering(4)
    lowering.register("more", 50)
    torch.compile(torch.sin, backend=lowering.compile)
"""
BLOCKS = """
def main():
    table = {}
    if torch.cuda.device_count() >= 0:
        with torch.no_grad():
            for number in range(3):
                table[number] = 2

            @torch.compile(backend=lambda gm: lower(gm, table[2], []))
            def compiled(x):
                return x
"""
COUNTS = """
def main():
    count = 0

    def backend(gm):
        nonlocal count
        count += 1

        return gm + count

    compiled = torch.compile(torch.sin, backend=backend)
"""


@pytest.mark.parametrize(
    ("text", "made_by", "result"),
    [(LAMBDA, "main", 4), (METHOD, "Lowering", 54), (BLOCKS, "main", 3), (COUNTS, "main", 2)],
)
def test_what_a_function_made_is_made_again(text, made_by, result):
    found = backend_text(HEAD + text, made_by)
    names = {}
    exec(f"{HEAD}{found.definitions}", names)
    assert found.names == ("make_backend",) and eval(found.expression, names)(1) == result
    assert "unused" not in found.definitions and " \n" not in found.definitions


@pytest.mark.parametrize(
    ("text", "made_by", "expression", "name"),
    [
        ("torch.compile(f, backend=lambda gm: lower(gm, 2, []))", "<lambda>", "lambda gm: lower(gm, 2, [])", "lower"),
        (
            "torch.compile(f, backend=Lowering(max(2, 3)).compile)",
            "Lowering",
            "Lowering(max(2, 3)).compile",
            "Lowering",
        ),
        (
            "def main():\n    made = Lowering(2)\n    torch.compile(f, backend=made)",
            "Lowering",
            "Lowering(2)",
            "Lowering",
        ),
        ("torch.compile(f, backend=minifier.wrap(Lowering(2), out='o'))", "Lowering", "Lowering(2)", "Lowering"),
    ],
)
def test_an_expression_of_the_module(text, made_by, expression, name):
    found = backend_text(HEAD + text + "\n", made_by)
    assert (found.expression, found.names, found.definitions) == (expression, (name,), "")


@pytest.mark.parametrize(
    ("text", "made_by"),
    [
        ("torch.compile(f, backend=Lowering(2).compile)", "lower"),
        ("torch.compile(f, backend=Lowering(2))\ntorch.compile(f, backend=Lowering(3))", "Lowering"),
        ("def main(level):\n    torch.compile(f, backend=Lowering(level))", "Lowering"),
        ("async def main():\n    level = await f()\n    torch.compile(f, backend=Lowering(level))", "Lowering"),
        ("def main():\n    for level in (1, 2):\n        torch.compile(f, backend=Lowering(level))", "Lowering"),
        ("[torch.compile(f, backend=Lowering(level)) for level in (1, 2)]", "Lowering"),
    ],
    ids=["made by another", "two", "a parameter", "a coroutine", "a loop that goes on", "a comprehension"],
)
def test_no_text(text, made_by):
    assert backend_text(HEAD + text + "\n", made_by) is None


def test_the_name_of_the_function_is_free():
    found = backend_text(f"make_backend = 1\n{HEAD}{LAMBDA}", "main")
    assert found.expression == "make_backend_()" and found.definitions.startswith("def make_backend_():")
