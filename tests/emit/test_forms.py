"""Parts of the scripts, and which are tried in what order: without running them."""

import math
from dataclasses import replace

import pytest
from failing_cases import CASES, PREDICATE, differs

from minifier.case import Drawn, State, Symbolic, TensorInput
from minifier.case.compiled_sizes import size_of
from minifier.emit.predicate_source import predicate_source
from minifier.emit.repro import Template, Variant, forms_for, is_worth_trying, templates_for, write_repro
from minifier.emit.tolerances import tolerance
from minifier.errors import NoRepro
from minifier.failure import Aspect, Difference


def difference(error, eager_error=None, noise=None):
    return Difference(Aspect.VALUES, "output 0", "", error, eager_error, noise)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (difference(0.02), "1e-3"),
        (difference(0.02, 1e-8, 1e-8), "1e-5"),
        (difference(0.02, 1e-3, None), "9e-3"),
        (difference(1.0, 1e-3, 1e-2), "1e-1"),
        (difference(2e-6, 1e-8, 0.0), "1e-7"),
        (difference(5e5, 1e2, 0.0), "1e4"),
        (difference(1e-3, 2e-3), None),
        (difference(float("nan")), None),
        (difference(None), None),
        (difference(0.0), None),
    ],
)
def test_a_tolerance_lies_between_a_right_result_and_the_wrong_one(given, text):
    found = tolerance(given)
    assert (found and float(found)) == (text and pytest.approx(float(text), rel=0.15)), found
    if found is not None:
        assert max(given.eager_error or 0, given.noise or 0) < float(found) < given.error
        assert math.log10(float(found)).is_integer() or found[1:].startswith("e")


@pytest.mark.parametrize(
    ("numbers", "explicit"),
    [
        ({"error": 0.02, "eager_error": 1e-8, "noise": 1e-8}, False),
        ({"error": 2e-6, "eager_error": 1e-8}, True),
        ({"error": 0.5, "eager_error": 1e-3}, True),
        ({"error": 0.5, "noise": 1e-3}, True),
        ({"error": float("inf"), "eager_error": 0.0}, False),
        ({}, False),
    ],
)
def test_tolerances_are_given_only_where_the_defaults_would_not_tell(numbers, explicit):
    case = replace(CASES["values"], failure=differs(Aspect.VALUES, **numbers))
    template, variant = forms_for(case)[0]
    assert template is Template.COMPARE_RESULTS
    assert ("atol=" in write_repro(case, template, variant).text) is explicit


def test_every_way_of_comparing_is_tried_once():
    forms = forms_for(CASES["values"])
    assert len(set(forms)) == len(forms)
    told = {(v.tolerance, v.equal_nan) for t, v in forms if t is Template.COMPARE_RESULTS}
    assert told == {(a, b) for a in (False, True) for b in (False, True)}


@pytest.mark.parametrize(
    ("calls", "earlier"),
    [
        (2, "compiled(*map(copy.deepcopy, inputs()))\n"),
        (4, "for _ in range(3):\n    compiled(*map(copy.deepcopy, inputs()))\n"),
    ],
)
def test_a_later_call_is_compared_after_earlier_ones(calls, earlier):
    case = replace(CASES["values"], calls=calls)
    (template,) = templates_for(case)
    text = write_repro(case, template).text
    assert earlier + "actual = compiled(*inputs())\n" in text and "import copy\n" in text


def test_requires_grad_is_compared_by_itself():
    case = replace(CASES["values"], failure=differs(Aspect.AUTOGRAD, sentence="output 0 is a leaf"))
    text = write_repro(case, templates_for(case)[0]).text
    assert "actual.requires_grad, actual.is_leaf" in text and "assert_close" not in text


PLAIN = Variant()
NOT_FINITE, OFF = differs(Aspect.NON_FINITE), differs(Aspect.VALUES)


@pytest.mark.parametrize(
    ("shown", "of_eager", "worth"),
    [
        (None, False, Variant(tolerance=True)),
        (NOT_FINITE, False, Variant(equal_nan=True)),
        (NOT_FINITE, True, Variant(equal_nan=True)),
        (OFF, True, Variant(symbolic=Symbolic.GIVEN)),
    ],
)
def test_a_comparison_is_varied_by_what_it_has_shown(shown, of_eager, worth):
    every = [Variant(tolerance=True), Variant(equal_nan=True), Variant(symbolic=Symbolic.GIVEN)]
    found = [variant for variant in every if is_worth_trying(variant, PLAIN, shown, of_eager)]
    assert found == list(dict.fromkeys([worth, every[-1]]))


def test_what_was_set_in_the_environment_is_tried_last_and_stands_before_torch():
    plain = CASES["exception"]
    case = replace(plain, state=State(environment=(("TORCHINDUCTOR_FREEZING", "1"),)))
    forms = forms_for(case)
    assert forms[: len(forms) // 2] == forms_for(plain)
    assert all(variant.environment for _, variant in forms[len(forms) // 2 :])
    assert "environ" not in write_repro(case, *forms[0]).text
    lines = write_repro(case, *forms[-1]).text.splitlines()
    assert lines[:4] == ["import os", "", 'os.environ["TORCHINDUCTOR_FREEZING"] = "1"', ""]
    assert lines.count("import os") == 1 and lines.index("import torch") == 4


def test_the_way_a_size_became_a_symbol_is_tried_first():
    for how in Symbolic:
        case = CASES["a second size"]
        ways = [v.symbolic for t, v in forms_for(replace(case, symbolic=how)) if t is Template.COMPILE_FUNCTION]
        assert ways[0] is how and set(ways) == set(Symbolic)


def test_a_size_that_no_op_reads_is_no_parameter():
    case = CASES["dynamic=True"]
    assert "def fn(x):\n    a = x.size(0)\n" in write_repro(case, Template.COMPILE_FUNCTION).text
    graph = case.graph
    add = replace(graph.node("add"), args=(graph.node("add").args[0], 1))
    unread = replace(graph, nodes=tuple(add if n.name == "add" else n for n in graph.nodes))
    text = write_repro(replace(case, graph=unread), Template.COMPILE_FUNCTION).text
    assert "def fn(x):\n    a = torch.tanh(x)\n" in text and "size(" not in text


def test_a_size_of_nothing_is_a_number():
    case = CASES["a second size"]
    inputs = tuple(
        replace(i, meta=replace(i.meta, symbols=("2*s0", None), shape=(8, 3), stride=(3, 1)))
        if isinstance(i, TensorInput)
        else i
        for i in case.inputs
    )
    text = write_repro(replace(case, inputs=inputs), Template.COMPILE_FUNCTION).text
    assert "def fn(x, y):" in text and "x = 4\n" in text
    assert "compiled(5, torch.randn(10, 3))" in text and "compiled(x, y)\n" in text


def test_values_given_one_by_one_are_drawn_for_another_size():
    case = CASES["a second size"]
    values = tuple(map(float, range(12)))
    inputs = tuple(
        replace(i, source=Drawn("list", values=values)) if isinstance(i, TensorInput) else i for i in case.inputs
    )
    assert "compiled(torch.randn(5, 3))" in write_repro(replace(case, inputs=inputs), Template.COMPILE_FUNCTION).text


@pytest.mark.parametrize(
    ("text", "value"), [("s0", 5), ("2*s0 + 1", 11), ("(s0 - 1)//2", 2), ("s0**2 % 7", 4), ("Max(s0, 2)", 5)]
)
def test_symbolic_sizes_are_followed(text, value):
    assert size_of(text, {"s0": 5}) == value


@pytest.mark.parametrize("text", ["Max[s0]", "s1", "s0 + 0.5", "s0 +", "__import__('os')", "s0 // 0"])
def test_symbolic_sizes_that_are_no_arithmetic_are_refused(text):
    with pytest.raises(NoRepro):
        size_of(text, {"s0": 5})


def test_the_users_comparison_is_taken_apart():
    found = predicate_source(PREDICATE + "\n\nif __name__ == '__main__':\n    print(LIMIT)\n")
    assert found.imports == ("import math",) and found.names == ("math", "LIMIT", "differs")
    assert [text.split()[0] for text in found.statements] == ["LIMIT", "def"]


@pytest.mark.parametrize(
    ("rate", "attempts", "sentence"),
    [
        (0.5, 10, "5 of 10"),
        (0.3, 20, "3 of 10"),
        (0.04, 170, "4 of 100"),
        (0.99, 2, "9 of 10"),
        (1e-4, 1000, "1 of 1000"),
    ],
)
def test_a_flaky_failure_is_tried_until_it_shows(rate, attempts, sentence):
    text = write_repro(replace(CASES["flaky"], rate=rate), Template.COMPILE_FUNCTION).text
    assert f"for attempt in range({attempts}):\n    torch.compiler.reset()\n" in text
    assert text.endswith(f"# Shows in about {sentence} attempts.\n")


def test_a_hang_is_ended_after_the_time_that_counts_as_one():
    for patience, seconds in ((3.0, 20), (33.2, 34)):
        text = write_repro(replace(CASES["hang"], patience=patience), Template.COMPILE_FUNCTION).text
        assert f"dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s\n" in text


def test_what_takes_all_memory_is_given_an_end():
    case = CASES["no more memory"]
    call = "resource.setrlimit(resource.RLIMIT_DATA, ({0} << 30, {0} << 30))"
    guard = call + "  # it takes all memory: this ends it at {0} GiB"
    for memory, most in ((None, 4), (200 * 2**30, 4), (2500 * 2**20, 3), (100 * 2**20, 2)):
        text = write_repro(case, Template.COMPILE_FUNCTION, memory=memory).text
        assert text.startswith("import resource\n") and guard.format(most) + "\ntorch.compile(" in text
    (item,) = case.inputs
    large = replace(case, inputs=(replace(item, meta=replace(item.meta, shape=(5 * 2**28,), stride=(1,))),))
    assert guard.format(14) in write_repro(large, Template.COMPILE_FUNCTION).text
    of_device = replace(case, failure=replace(case.failure, type="torch.OutOfMemoryError"))
    assert "resource" not in write_repro(of_device, Template.COMPILE_FUNCTION).text


@pytest.mark.parametrize("name", CASES)
def test_every_template_that_is_chosen_can_be_written(name):
    for template in templates_for(CASES[name]):
        text = write_repro(CASES[name], template, Variant(symbolic=CASES[name].symbolic)).text
        compile(text, "repro.py", "exec")
        assert "minifier." not in text and text.count("\n") < 45
