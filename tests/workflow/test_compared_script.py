"""Which differences between a compiled run of a script and its eager runs count."""

import torch

from minifier.capturing.watched_script import Moment, Note, Notes, Place
from minifier.flow.compared_script import sights
from minifier.torch_side.compare.visible import leaves_of

LINE = Place(7)


def after(value, name="x"):
    return Note(Moment.AFTER, LINE, leaves_of({name: value}))


def elsewhere(line):
    return Note(Moment.BEFORE, Place(line))


def found(compiled, eager, other=None):
    """The values that differ, as (expression, in eager mode)."""
    other = other or eager
    runs = [run if isinstance(run, Notes) else Notes(tuple(run)) for run in (compiled, eager, other)]
    return [(sight.expression, sight.eager or sight.error) for sight in sights(*runs)]


def test_the_first_difference_of_each_note_is_found_a_result_ahead_of_a_variable():
    compiled = [after(1), Note(Moment.AFTER, LINE, leaves_of({"n": 2, "result": 5.0}))]
    eager = [after(1), Note(Moment.AFTER, LINE, leaves_of({"n": 1, "result": 4.0}))]
    assert found(compiled, eager) == [("result", "4")]


def test_a_gradient_is_found_ahead_of_the_parameter_and_as_made_since_an_earlier_call():
    model, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    for module, value in ((model, 1.0), (other, 2.0)):
        torch.nn.init.constant_(module.bias, value)
        torch.nn.init.ones_(module.weight)
        module.bias.grad = torch.tensor([value])
    runs = [
        Notes((Note(Moment.BEFORE, LINE), Note(Moment.BEFORE, LINE, leaves_of({"m": module}))))
        for module in (model, other)
    ]
    (sight,) = sights(*runs, runs[1])
    assert (sight.expression, sight.is_later) == ("m.bias.grad", True)


def test_a_tensor_that_only_eager_mode_has_is_compared_with_a_tolerance():
    compiled, eager = Notes((after(1),)), Notes((Note(Moment.AFTER, LINE, leaves_of({"x": 1, "y": torch.ones(3)})),))
    (sight,) = sights(compiled, eager, eager)
    assert (sight.expression, sight.tolerance, sight.is_tensor) == ("y", 0.1, True)


def test_what_a_second_eager_run_changes_as_much_does_not_count():
    assert found([after(1.5)], [after(1.0)], [after(1.4)]) == []
    assert found([after(1.5)], [after(1.0)], [after(1.0001)]) == [("x", "1")]
    assert found([after("a")], [after("b")], [after("c")]) == []


def test_a_wrong_number_is_told_with_its_error_and_eagers_own():
    runs = [Notes((after(torch.tensor([value, 5.0])),)) for value in (1.5, 1.0, 1.0001)]
    (sight,) = sights(*runs)
    moved = "with other rounding eager mode's moves by 0.0001"
    assert str(sight) == f"`x` at line 7 is off by 0.5; {moved}: [1.5, 5] for [1, 5]"


def test_a_variable_that_a_backend_of_the_script_changes_does_not_count():
    compiled = Notes((after([1], "graphs"),), of_backends=frozenset({"graphs"}))
    assert found(compiled, [after([], "graphs")]) == []
    assert found([after([1], "graphs")], [after([], "graphs")]) == [("len(graphs)", "0")]


def test_nothing_counts_after_the_runs_part():
    assert found([elsewhere(3), after(1)], [elsewhere(4), after(2)]) == []
    notes = [(after(torch.zeros(2)), after(value)) for value in (1, 2)]
    drawn = [Notes(run, draws={1: state}) for run, state in zip(notes, ("one", "two"), strict=True)]
    assert found(*drawn) == []


def test_an_exception_that_both_eager_runs_raise_counts():
    raising = Notes((after(1),), error="ValueError", line=9)
    assert found([after(1)], raising, raising) == [("", "ValueError")]
    assert found([after(1)], raising, [after(1)]) == []
    assert found(raising, raising, raising) == []
