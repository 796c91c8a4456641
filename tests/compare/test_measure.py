"""The user's own measure."""

import pytest
import torch
from compare_captures import captures

from minifier.errors import UsageError
from minifier.failure import Aspect, Tolerance


@pytest.fixture(scope="module")
def captured():
    return captures(lambda x: (torch.tanh(x), (x * 2).int()), torch.linspace(-3, 3, 50))[0]


def off_by(factor):
    return lambda x: (torch.tanh(x) * factor, (x * 2).int())


def test_tolerances_replace_the_judgement(captured):
    loose, tight = Tolerance(rtol=0.05, atol=0.0), Tolerance(rtol=0.0, atol=0.0)
    compared = captured.compare(off_by(1.02), loose)
    assert compared.differences == () and captured.eager_runs == 1
    found = captured.compare(off_by(1.000001), tight).differences
    assert [d.aspect for d in found] == [Aspect.VALUES]
    assert captured.compare(lambda x: (torch.tanh(x), (x * 2).int() + 1), loose).differences


def predicate(body):
    return Tolerance(predicate=f"def differs(compiled, eager):\n    {body}\n")


@pytest.mark.parametrize(
    "body, wanted",
    [
        ("return (compiled[0] - eager[0]).abs().max() > 0.5", []),
        ("return (compiled[0] - eager[0]).abs().max() > 0.001", ["the predicate says that the outputs differ"]),
        ("return f'{len(eager)} outputs, far apart'", ["2 outputs, far apart"]),
        ("return ''", []),
        ("return None", []),
    ],
)
def test_a_predicate_decides_alone(captured, body, wanted):
    found = captured.compare(off_by(1.02), predicate(body)).differences
    assert [d.sentence for d in found] == wanted
    assert {d.aspect for d in found} <= {Aspect.PREDICATE}


@pytest.mark.parametrize(
    "text, said",
    [
        ("def different(a, b): pass", "does not define differs(compiled, eager)"),
        ("def differs(a, b:\n", "is not Python"),
        ("import nothing_like_this", "fails when it is run: ModuleNotFoundError"),
        ("def differs(a, b):\n    return a[9]\n", "raises IndexError: list index out of range (line 2"),
        ("def differs(a, b):\n    return [1]\n", "returned a list, not a bool or a str"),
    ],
)
def test_a_predicate_that_does_not_work(captured, text, said):
    with pytest.raises(UsageError) as error:
        captured.compare(off_by(1.02), Tolerance(predicate=text))
    assert said in str(error.value)
