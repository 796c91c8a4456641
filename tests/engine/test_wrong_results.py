"""The reduction of wrong results: which aspect of a result is sought, and where a wrong value counts."""

import pytest
from chains import chain, names
from fake_prober import differs, differs_by, has, has_node, targets, when

from minifier.data.failure import Aspect, Difference

DTYPE = Difference(Aspect.DTYPE, "output 0", "output 0 is of type int8, in eager of uint8")
VALUES = Difference(Aspect.VALUES, "output 0", "output 0 differs in 3 of 4 elements", 9.0, 0.0)


def test_the_worst_aspect_of_a_result_is_sought_and_not_the_one_that_an_assertion_names_first(reduce):
    wrong_values = when(has("cos"), differs_by(VALUES), when(has("tanh"), differs_by(DTYPE)))
    case = chain("cos", "exp", "tanh", "abs", "sin", failing=differs_by(DTYPE, VALUES))
    done = reduce(case, when(has("cos", "tanh"), differs_by(DTYPE, VALUES), wrong_values))
    assert targets(done.case) == ["cos"]
    assert done.case.failure.fingerprint.aspects == ("values",)


def test_a_simplification_that_only_the_backend_itself_gets_wrong_is_taken_back(reduce):
    """Dynamo, which a repro calls, hands over another graph at size 1."""

    def shows(case):
        return has("tanh")(case) and (case.elements > 1 or not case.through_dynamo)

    done = reduce(chain("cos", "tanh", "abs", shape=(4, 6), failing=differs()), when(shows, differs()))
    assert targets(done.case) == ["tanh"] and done.case.through_dynamo and done.case.elements == 2
    always = reduce(chain("cos", "tanh", "abs", shape=(4, 6), failing=differs()), when(has("tanh"), differs()))
    assert always.case.elements == 1 and not always.case.through_dynamo


@pytest.mark.parametrize("aspect", [Aspect.MUTATION, Aspect.DTYPE])
def test_a_wrong_value_of_the_same_ops_in_an_input_is_no_other_failure(reduce, aspect):
    case = chain("sin", "cos", "tanh", "abs", "exp", "tanh", failing=differs())
    first, second = [name for name in names(case) if name.startswith("tanh")]
    elsewhere = differs(aspect=aspect, where="input x after the call")
    done = reduce(case, when(has_node(second), differs(), when(has_node(first), elsewhere)))
    assert targets(done.case) == ["tanh"]
    assert len(done.summary.others) == (aspect is Aspect.DTYPE)
