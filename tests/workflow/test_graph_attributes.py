"""Failures that a graph shows only while it holds the module's tensors itself, as under inductor's freezing."""

import pytest
from vocabulary import run_alone

pytestmark = pytest.mark.timeout(400)

PACKED = """
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = True  # Dynamo leaves parameters in the graph, whatever the backend


    class PackingError(Exception):
        pass


    def packs(gm, inputs):
        held = {node.name for node in gm.graph.nodes if node.op == "get_attr"}
        for node in gm.graph.nodes:
            if node.target is torch.bmm and node.args[1].name in held:
                raise PackingError("cannot pack the weight of bmm")
        return gm.forward


    weight = torch.nn.Parameter(torch.randn(2, 3, 4))
    with torch.no_grad():
        torch.compile(lambda x: torch.bmm(x.tanh(), weight).relu(), backend=packs)(torch.randn(2, 5, 3))
"""


def test_a_backend_that_packs_the_weights_of_a_graph(project):
    done = project.run(PACKED)
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and done.result["level"] == "dynamo", done.stderr
    assert done.result["elements_after"] == 2, done.repro
    alone = run_alone(done.out / "repro.py", project.root / "elsewhere")
    assert "PackingError: cannot pack the weight of bmm" in alone.stderr
