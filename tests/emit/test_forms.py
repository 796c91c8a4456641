"""Which forms of script can show a failure, in what order, and what they hold; their text is in tests/goldens."""

import ast
import re
from dataclasses import replace

import pytest
from case_text import case_of
from failing_cases import CASES, PREDICATE, differs

from minifier.capturing.slicing.cases import names_bound
from minifier.data.case import Symbolic, TensorInput
from minifier.data.case.calls import called
from minifier.data.failure import Aspect, Difference, ElementPair
from minifier.repro.emit.footer import needed_folder
from minifier.repro.emit.forms import Template, Variant, forms_for, templates_for, tolerance
from minifier.repro.emit.repro import write_repro
from minifier.repro.emit.script_text import mark_names, predicate_source


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.02,), "1e-3"),
        ((0.02, 1e-8, 1e-8), "1e-5"),
        ((0.02, 1e-3, None), "9e-3"),
        ((1.0, 1e-3, 1e-2), "1e-1"),
        ((5e5, 1e2, 0.0), "1e4"),
        ((1e-3, 2e-3), None),
        ((float("nan"),), None),
        ((None,), None),
        ((0.0,), None),
    ],
)
def test_a_tolerance_lies_between_a_right_result_and_the_wrong_one(numbers, text):
    given = Difference(Aspect.VALUES, "output 0", "", *numbers)
    found = tolerance(given)
    assert (found and float(found)) == (text and pytest.approx(float(text), rel=0.15)), found
    if found is not None:
        assert max(given.eager_error or 0, given.noise or 0) < float(found) < given.error


@pytest.mark.parametrize(
    ("numbers", "explicit"),
    [
        ({"error": 0.02, "eager_error": 1e-8, "noise": 1e-8}, False),
        ({"error": 2e-6, "eager_error": 1e-8}, True),
        ({"error": 0.5, "noise": 1e-3}, True),
        ({"error": float("inf"), "eager_error": 0.0}, False),
        ({}, False),
    ],
)
def test_tolerances_are_given_only_where_the_defaults_would_not_tell(numbers, explicit):
    case = replace(CASES["values"], failure=differs(Aspect.VALUES, **numbers))
    assert ("atol" in write_repro(case, *forms_for(case)[0]).text) is explicit


@pytest.mark.parametrize(("eager", "explicit"), [("1.5", False), ("-3e4", True)])
def test_the_defaults_tolerate_more_in_larger_elements(eager, explicit):
    elements = (ElementPair((0, 1), eager, eager, 9.0),)
    case = replace(CASES["values"], failure=differs(Aspect.VALUES, error=0.02, eager_error=1e-8, elements=elements))
    assert ("atol" in write_repro(case, *forms_for(case)[0]).text) is explicit


def test_inputs_are_made_anew_first_where_the_graph_or_a_call_ahead_may_change_them():
    for name, times, fresh in (("values", 1, [False, True]), ("in place", 1, [True, False]), ("values", 4, [True])):
        case = CASES[name] if times == 1 else called(CASES[name], times)
        assert [variant.fresh for _, variant in forms_for(case)] == fresh


def test_what_was_set_in_the_environment_is_tried_last():
    plain = CASES["exception"]
    forms = forms_for(replace(plain, state=replace(plain.state, environment=(("TORCHINDUCTOR_FREEZING", "1"),))))
    first, last = forms[: len(forms) // 2], forms[len(forms) // 2 :]
    assert first == forms_for(plain) and all(variant.environment for _, variant in last)


def test_the_way_a_size_became_a_symbol_is_tried_first():
    for how in Symbolic:
        case = replace(CASES["a second size"], symbolic=how)
        ways = [v.symbolic for t, v in forms_for(case) if t is Template.COMPILE_FUNCTION]
        assert ways[0] is how and set(ways) == set(Symbolic)


def parameters(case):
    """The parameters of the repro's function, and its text."""
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    (function,) = [each for each in ast.parse(text).body if getattr(each, "name", "") == "fn"]
    return [argument.arg for argument in function.args.args], text


def test_a_size_is_a_parameter_only_if_no_tensor_has_it():
    case = CASES["dynamic=True"]
    names, text = parameters(case)
    assert names == ["x"] and "dynamic=True" in text
    add = case.graph.node("add")
    nodes = tuple(replace(n, args=(add.args[0], 1)) if n.name == "add" else n for n in case.graph.nodes)
    assert "size(" not in parameters(replace(case, graph=replace(case.graph, nodes=nodes)))[1]
    case = CASES["a second size"]
    inputs = tuple(
        replace(i, meta=replace(i.meta, symbols=("2*s0", None), shape=(8, 3), stride=(3, 1)))
        if isinstance(i, TensorInput)
        else i
        for i in case.inputs
    )
    names, text = parameters(replace(case, inputs=inputs))
    assert len(names) == 2 and "randn(8, 3)" in text and "randn(9, 3)" in text


def test_the_users_comparison_is_taken_apart():
    found = predicate_source(PREDICATE + "\n\nif __name__ == '__main__':\n    print(LIMIT)\n")
    assert found.imports == ("import math",) and names_bound(found.source) == {"LIMIT", "differs"}


@pytest.mark.parametrize(("rate", "attempts"), [(0.5, 10), (0.3, 20), (0.04, 170), (0.99, 2), (1e-4, 1000)])
def test_a_flaky_failure_is_tried_until_it_shows(rate, attempts):
    assert f"range({attempts})" in write_repro(replace(CASES["flaky"], rate=rate), Template.COMPILE_FUNCTION).text


def test_a_hang_is_ended_after_the_time_that_counts_as_one():
    for patience, seconds in ((3.0, 20), (33.2, 34)):
        text = write_repro(replace(CASES["hang"], patience=patience), Template.COMPILE_FUNCTION).text
        assert f"dump_traceback_later({seconds}," in text


def test_what_takes_all_memory_is_given_an_end():
    case = CASES["no more memory"]
    (item,) = case.inputs
    large = replace(case, inputs=(replace(item, meta=replace(item.meta, shape=(5 * 2**28,), stride=(1,))),))
    for memory, given, gib in ((None, case, 4), (2500 * 2**20, case, 3), (100 * 2**20, case, 2), (None, large, 14)):
        text = write_repro(given, Template.COMPILE_FUNCTION, memory=memory).text
        assert re.search(r"RLIMIT_DATA, \((\d+) << 30", text)[1] == str(gib)
    of_device = replace(case, failure=replace(case.failure, type="torch.OutOfMemoryError"))
    assert "resource" not in write_repro(of_device, Template.COMPILE_FUNCTION).text


def test_every_template_that_is_chosen_can_be_written():
    for case in CASES.values():
        for template in templates_for(case):
            text = write_repro(case, template, Variant(symbolic=case.symbolic)).text
            compile(text, "repro.py", "exec")
            assert "minifier." not in text and text.count("\n") < 45


def test_modules_that_lie_in_the_scripts_folders_are_named(tmp_path):
    (tmp_path / "backend.py").touch()
    (tmp_path / "passes").mkdir()
    (line,) = needed_folder({"torch", "passes", "backend"}, [str(tmp_path)])
    assert "backend, passes" in line and "PYTHONPATH" in line
    assert needed_folder({"torch"}, [str(tmp_path)]) == [] == needed_folder({"backend"}, [])


LIKE_A_TEMPLATE = 'pick("aot_eager_default_partitioner", list(range(2)), [x], fn(x), backend="eager")'


@pytest.mark.parametrize("name", CASES)
def test_no_backend_is_taken_for_the_templates_text(name):
    case = CASES[name]
    case = replace(case, backend=replace(case.backend, expression=LIKE_A_TEMPLATE, options={"of": LIKE_A_TEMPLATE}))
    for template, variant in forms_for(case):
        nodes = [*ast.walk(ast.parse(write_repro(case, template, variant).text))]
        calls = [ast.unparse(node).replace("'", '"') for node in nodes if isinstance(node, ast.Call)]
        texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
        assert LIKE_A_TEMPLATE in calls and LIKE_A_TEMPLATE in texts


def test_several_results_that_may_share_memory():
    """With any of several inputs."""
    case = case_of("a: float32[6]\nb: float32[6]\nc = torch.sin(a)\nd = b.view(6)\nreturn c, d")
    case = replace(case, failure=CASES["aliasing"].failure)
    assert write_repro(case, Template.COMPARE).text.count("sharing(x, y, *") == 2


def test_only_variables_are_marked_as_the_scripts():
    marked = mark_names("partial(f, options=options, a=x.options)", {"options"})
    assert marked == "partial(f, options=of_the_script__options, a=x.options)"
