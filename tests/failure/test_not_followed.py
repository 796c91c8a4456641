"""Two bugs of one kind in one script: the reduction stays with the one it began with."""

import pytest
from vocabulary import source_of

from minifier.capturing.script_limits import Comparing
from minifier.data.failure import Tolerance

pytestmark = pytest.mark.timeout(120)


def test_a_death_in_another_function_is_kept_aside(bureau):
    bureau.capture(
        source_of(
            """
            import torch
            import oddlib.deadly

            @torch.compile(backend="oddlib_two_deaths")
            def fn(x):
                x = torch.softmax(x.cos(), -1) + 1
                return torch.tanh(x.sin()).exp()

            fn(torch.ones(3))
            """
        )
    )
    summary, case = bureau.reduce()
    assert sorted(node.target for node in case.graph.ops) == ["torch.softmax", "torch.tanh"]
    (other,) = summary.others
    assert other.ops == 1


@pytest.mark.soak
def test_a_slight_error_is_not_taken_for_a_gross_one(bureau):
    captured = bureau.capture(
        source_of(
            """
            import torch
            import oddlib

            @torch.compile(backend="oddlib_two_wrongs")
            def fn(x):
                y = torch.sigmoid(x.sin()) * x
                y = y.cos() * x
                return torch.nn.functional.gelu(y)

            torch.manual_seed(0)
            fn(torch.randn(64))
            """
        ),
        comparing=Comparing(Tolerance(), False),
    )
    summary, case = bureau.reduce(captured.failing[0].number)
    assert sorted(node.target for node in case.graph.ops) == ["operator.mul", "operator.mul", "torch.sigmoid"]
    assert summary.others


@pytest.mark.soak
def test_a_wrong_value_that_no_result_depends_on_is_not_followed(bureau):
    captured = bureau.capture(
        source_of(
            """
            import torch
            import oddlib

            @torch.compile(backend="oddlib_two_wrong_ops")
            def fn(x):
                b = torch.log1p(x.abs()) > 0.5
                y = torch.relu(x.sin()) + x.cos()
                return torch.where(b, y, y).exp()

            torch.manual_seed(0)
            fn(torch.randn(64))
            """
        ),
        comparing=Comparing(Tolerance(), False),
    )
    summary, case = bureau.reduce(captured.failing[0].number)
    assert [node.target for node in case.graph.ops] == ["torch.relu"]
    assert sorted(op.partition("_")[0] for op, _ in summary.divergent) == ["b", "relu"]  # the report lists both
