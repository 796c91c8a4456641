"""A later call that writes over a result which the script still has: a backend with a fixed output buffer."""

import pytest
from capture_looks import looked

from minifier.data.case.store import load

pytestmark = pytest.mark.timeout(150)

BUFFERED = """
import oddlib
import torch

f = torch.compile(lambda x: torch.tanh(x).sin(), backend="oddlib_buffers")
torch.manual_seed(0)
batches = [torch.randn(4) for _ in range(3)]
"""
IN_A_FUNCTION = """
def main():
    first, second = f(batches[0]), f(batches[1])
    torch.testing.assert_close(first, batches[0].tanh().sin())

main()
"""


@pytest.mark.parametrize(
    "rest",
    [
        "results = [f(x) for x in batches]\n",
        "first = f(batches[0])\nsecond = f(batches[1])\n",
        IN_A_FUNCTION,
    ],
    ids=["a list", "variables", "a failing check in a function"],
)
def test_a_result_that_the_script_still_has(bureau, rest):
    found, _, _ = looked(bureau, BUFFERED + rest)
    (failing,) = found.captured.failing
    assert failing.failure.fingerprint.message == "overwritten" and failing.call == 2
    assert load(found.graphs / "1").calls == 2


@pytest.mark.parametrize(
    "rest",
    [
        "for x in batches:\n    y = f(x)\n",
        "print([f(x).sum().item() for x in batches])\n",
        "first = f(batches[0])\nfirst.add_(1)\nsecond = f(batches[0].new_ones(7))\n",
        "g = torch.compile(lambda x: x.relu_(), backend='oddlib_buffers')\na = g(batches[0])\nb = g(batches[0])\n",
        "first = f(batches[0])\nsecond = f(batches[0])\n",
        "nans = batches[0] * float('nan')\nfirst = f(nans)\nsecond = f(nans)\n",
    ],
    ids=["dropped at the next result", "never kept", "changed by the script", "its own input", "equal values", "NaNs"],
)
def test_a_result_that_nobody_misses(bureau, rest):
    found, said, _ = looked(bureau, BUFFERED + rest)
    assert found.captured.failing == () and "agreed" in said


def test_a_tensor_of_the_graph_itself(bureau):
    """Eager returns the same memory as well, which both calls have changed."""
    text = """
    import torch

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = torch.zeros(3)

        def forward(self, x):
            return self.count.add_(x)

    f = torch.compile(Counter(), backend="eager")
    first, second = f(torch.ones(3)), f(torch.ones(3))
    """
    found, _, _ = looked(bureau, text)
    assert found.captured.failing == ()


def test_the_op_whose_result_is_written_over(minify):
    done = minify(
        BUFFERED.replace(".sin(), backend", ".sin().exp() + 1, backend") + "results = [f(x) for x in batches]"
    )
    assert done.result["ops_after"] == 1 and done.result["one_minimal"] and done.result["verified"]["same"] > 0
    assert "torch.tanh" in done.repro and "first.data_ptr() != second.data_ptr()" in done.repro
    assert "eager's values" not in done.stderr, "that the call writes into its own memory is no op's fault"
