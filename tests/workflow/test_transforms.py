"""Failures of torch.func's transforms: a graph of Dynamo's has what the transforms do, the script has their names."""

import pytest
from vocabulary import run_alone

pytestmark = pytest.mark.timeout(400)

DUAL = """
    import torch
    from torch.func import jvp

    LEVEL = {"_jvp_increment_nesting", "_enter_dual_level", "_make_dual", "_unpack_dual", "_exit_dual_level"}


    def lower(gm, inputs):
        if LEVEL <= {getattr(node.target, "__name__", "") for node in gm.graph.nodes}:
            raise NotImplementedError("forward derivatives cannot be lowered")
        return gm.forward


    def loss(x):
        scaled = torch.tanh(x) * 2
        return torch.sin(scaled).sum() + x.exp().mean()


    def slope(x):
        value, tangent = jvp(loss, (x,), (torch.ones_like(x),))
        return torch.relu(tangent) + value


    torch.compile(slope, backend=lower)(torch.randn(3))
"""


@pytest.mark.soak
def test_the_script_is_read_in_place_of_a_graph_of_transforms(project):
    done = project.run(DUAL)
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source", done.stderr
    assert "_make_dual" not in done.repro.partition("def slope")[2] and "jvp(" in done.repro
    assert done.result["verified"]["control"] == "passed" and not (done.out / "script").exists()
    alone = run_alone(done.out / "repro.py", project.root / "elsewhere")
    assert alone.returncode == 1 and "forward derivatives cannot be lowered" in alone.stderr
