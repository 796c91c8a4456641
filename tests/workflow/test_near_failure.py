"""Another failure that is raised where the sought failure is, by fewer ops: it is reduced as well, and offered."""

import pytest

from minifier.data.case.store import load

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("processes")]

SCRIPT = """
    import torch


    class LoweringError(RuntimeError):
        pass


    def lower(found):
        if {"sin", "tanh", "cos", "abs"} <= found:
            raise LoweringError("the schedule does not fit into one tile")
        if {"sin", "tanh"} <= found:
            raise LoweringError("no layout for the result")


    def tiled(gm, inputs):
        lower({getattr(node.target, "__name__", "") for node in gm.graph.nodes})
        return gm.forward


    def fn(x):
        for _ in range(3):
            x = torch.sin(x) + 1
        return torch.abs(torch.cos(torch.exp(torch.tanh(x) * 2)))


    torch.compile(fn, backend=tiled)(torch.randn(4))
"""


def test_the_near_failure_is_reduced_as_well(minify):
    done = minify(SCRIPT)
    assert done.code == 0 and done.ops[1] == 4, done.stderr
    near = done.result["others"][0]
    assert (near["near"], near["reduced"], near["ops"]) == (True, True, 2)
    case = load(done.out / near["case"])
    assert sorted(node.short_target for node in case.graph.ops) == ["sin", "tanh"]
    assert case.inputs[0].meta.shape == (1,) and not (done.out / "near").exists()
