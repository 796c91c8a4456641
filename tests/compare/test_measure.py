"""The user's own measure."""

import pytest
import torch
from compare_captures import captures

from minifier.data.failure import Aspect, Tolerance
from minifier.errors import UsageError


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
        ("return (compiled[0] - eager[0]).abs().max() > 0.5", 0),
        ("return (compiled[0] - eager[0]).abs().max() > 0.001", 1),
        ("return f'{len(eager)} outputs, far apart'", 1),
        ("return ''", 0),
        ("return None", 0),
    ],
)
def test_a_predicate_decides_alone(captured, body, wanted):
    found = captured.compare(off_by(1.02), predicate(body)).differences
    assert [d.aspect for d in found] == [Aspect.PREDICATE] * wanted


@pytest.mark.parametrize(
    "text", ["def different(a, b): pass", "import nothing_like_this", "def differs(a, b):\n    return a[9]\n"]
)
def test_a_predicate_that_does_not_work(captured, text):
    with pytest.raises(UsageError):
        captured.compare(off_by(1.02), Tolerance(predicate=text))
