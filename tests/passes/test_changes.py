"""What a program gives to its compiler, changed one by one: settings, options, arguments that make the backend."""

from dataclasses import replace

import pytest
from case_samples import small_case

from minifier.reduction.explain import changes_of


def with_backend(definitions="", **fields):
    case = small_case()
    state = replace(case.state, config=())
    return replace(case, backend=replace(case.backend, **fields), state=state, definitions=definitions)


def lines(case):
    return [[change.line for change in group] for group in changes_of(case)]


def test_an_option_is_left_out_or_gets_another_value_beside_the_others():
    case = with_backend(options={"level": 2, "name": "fast", "fast": True, "none": 0})
    assert lines(case) == [
        ['without options={"level": 2}', 'options={"level": 0, "name": "fast", "fast": True, "none": 0}'],
        ['without options={"name": "fast"}'],
        ['without options={"fast": True}', 'options={"level": 2, "name": "fast", "fast": False, "none": 0}'],
        ['without options={"none": 0}'],
    ]
    (_, zero), *_ = changes_of(case)
    assert zero.case.backend.options == {"level": 0, "name": "fast", "fast": True, "none": 0}


def test_a_setting_is_left_out():
    case = small_case()
    setting = ("torch._dynamo.config", "verbose", True)
    case = replace(case, state=replace(case.state, config=(setting,)))
    assert lines(case)[0] == ["without torch._dynamo.config.verbose = True"]
    assert next(changes_of(case))[0].case.state.config == ()


@pytest.mark.parametrize("expression", ["", '"faulty_raise"', "mine", "make(3)", "make('a', level=0)", "make(**given)"])
def test_what_has_no_flag_or_number_by_name_is_not_changed(expression):
    assert lines(with_backend(expression=expression, options=None)) == []


def test_each_argument_of_the_expression_is_changed_where_it_stands():
    expression = "partial(make(level=2, größe=3), level=2)"
    assert lines(with_backend(expression=expression, options=None)) == [
        ["backend=partial(make(level=2, größe=3), level=0)"],
        ["backend=partial(make(level=0, größe=3), level=2)"],
        ["backend=partial(make(level=2, größe=0), level=2)"],
    ]


@pytest.mark.parametrize("annotation", ["", ": Backend"])
def test_the_last_statement_that_binds_the_backend_is_changed_and_no_other(annotation):
    definitions = (
        f'mine{annotation} = Careful(fast=True)\nTEXT = "mine = Careful(fast=True)"\n'
        f"mine{annotation} = Careful(\n    fast=True,\n)\nremade = Careful(fast=True)\n"
    )
    ((change,),) = changes_of(with_backend(definitions, expression="mine", options=None))
    assert change.source == "fast=True" and change.line == f"mine{annotation} = Careful(\n    fast=False,\n)"
    assert change.case.definitions == definitions.replace("\n    fast=True,", "\n    fast=False,")
