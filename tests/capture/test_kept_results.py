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
    ["results = [f(x) for x in batches]\n", "first = f(batches[0])\nsecond = f(batches[1])\n", IN_A_FUNCTION],
    ids=["a list", "variables", "a failing check in a function"],
)
def test_a_result_that_the_script_still_has(bureau, rest):
    found, _, _ = looked(bureau, BUFFERED + rest)
    (failing,) = found.captured.failing
    assert failing.failure.fingerprint.message == "overwritten" and failing.call == 2
    assert load(found.captured.folder / "1").calls == 2


NOBODY_MISSES = """
def dropped_at_the_next_result():
    for x in batches:
        y = f(x)

def never_kept():
    print([f(x).sum().item() for x in batches])

def changed_by_the_script():
    first = f(batches[0])
    first.add_(1)
    second = f(batches[0].new_ones(7))

def its_own_input():
    g = torch.compile(lambda x: x.relu_(), backend="oddlib_buffers")
    a, b = g(batches[0]), g(batches[0])

def equal_values():
    first, second = f(batches[0]), f(batches[0])

def not_numbers():
    nans = batches[0] * float("nan")
    first, second = f(nans), f(nans)

for each in (dropped_at_the_next_result, never_kept, its_own_input, equal_values, not_numbers, changed_by_the_script):
    each()
"""


def test_a_result_that_nobody_misses(bureau):
    found, said, _ = looked(bureau, BUFFERED + NOBODY_MISSES)
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
