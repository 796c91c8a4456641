"""The statements of a function that had run when it stood at a line, and those of them that its variables need."""

import pytest
from vocabulary import source_of

from minifier.capturing.slicing.function_body import (
    as_function,
    backend_arguments,
    function_body,
    global_names,
    lambda_text,
)

SOURCE = source_of("""
    import torch


    def main(size, *, level=2):
        log = []
        count = 0
        unused = torch.ones(size)
        if size:
            with torch.no_grad():
                table = {}
                for op in (torch.sin, torch.cos):
                    table[op] = level

                def backend(gm, args):
                    nonlocal count
                    count += 1
                    log.append(table)

                compiled = torch.compile(torch.sin, backend=lambda gm, a: backend(gm, a) or log)
                compiled(unused)  # here
                table["later"] = 1
        return compiled
""")
HERE = 1 + SOURCE[: SOURCE.index("# here")].count("\n")


@pytest.fixture
def body():
    return function_body(SOURCE, "main", HERE)


def test_only_what_had_run_in_the_blocks_that_run(body):
    assert "later" not in body.source and "compiled(unused)" not in body.source and "if size" not in body.source
    assert body.source.startswith("log = []") and "compiled = " in body.source


def test_what_a_variable_needs(body):
    assert body.slice(["table"]).splitlines() == [
        "table = {}",
        "for op in (torch.sin, torch.cos):",
        "    table[op] = level",
    ]
    assert "unused" not in body.slice(["backend"]) and "log = []" in body.slice(["backend"])


def test_a_variable_that_an_inner_function_changes_is_bound_outside_of_it(body):
    text = as_function("made", body.slice(["backend"], known={"count"}), "backend")
    compile(text, "made", "exec")
    assert "count = 0" in text and "nonlocal count" in text


def test_a_known_variable_is_not_computed(body):
    assert body.slice(["unused"], known={"unused"}) == ""
    assert "table = {}" in body.slice(["table"], known={"level"})


def test_parameters_are_told_from_other_variables(body):
    assert body.parameters == {"size", "level"} and {"log", "size", "op", "backend"} <= body.variables


def test_a_function_that_is_not_there():
    assert function_body(SOURCE, "main", 1) is None and function_body(SOURCE, "other", HERE) is None


def test_what_a_slice_takes_from_its_module():
    lines = "k = scale\n\ndef inner(gm):\n    return helper(gm, k, len(gm))\n"
    assert global_names(lines, "lambda gm: inner(gm, more)") == {"scale", "helper", "len", "more"}


@pytest.mark.parametrize("lines", ["yield 1\n", "x = await other\n", "nonlocal x\n"])
def test_what_no_function_without_parameters_can_run(lines):
    with pytest.raises(SyntaxError):
        global_names(lines, "None")


def test_the_text_of_a_lambda():
    line = 1 + SOURCE[: SOURCE.index("compiled =")].count("\n")
    assert lambda_text(SOURCE, line, ["gm", "a"], ()) == "lambda gm, a: backend(gm, a) or log"
    assert lambda_text(SOURCE, line, ["gm"], ()) is None
    two = "pair = lambda a: a + 1, lambda a: a + 2\n"
    assert lambda_text(two, 1, ["a"], [two.index("a + 2")]) == "lambda a: a + 2"
    assert lambda_text(two, 1, ["a"], ()) is None


def test_the_arguments_of_torch_compile_in_a_function():
    assert backend_arguments(SOURCE, "main", HERE) == ["lambda gm, a: backend(gm, a) or log"]
    assert backend_arguments(SOURCE, "other", HERE) == []
