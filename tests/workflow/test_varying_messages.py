"""Backends whose messages quote the graph, or what they drew: each candidate fails with a message of its own."""

import pytest
from layers import sampled
from vocabulary import run_alone

pytestmark = pytest.mark.timeout(400)

ENGINE = """
    import random

    from torch._dynamo import register_backend

    WORDS = "amber birch cedar delta ember fjord grove heron iris jade".split()


    class EngineError(Exception):
        pass


    def refuse(gm, message):
        kinds = [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
        if "erf" in kinds:
            raise EngineError(message.format(", ".join(kinds)))
        return gm.forward


    @register_backend
    def listing(gm, inputs):
        return refuse(gm, "the engine cannot be built: erf has no kernel; the partition holds {}")


    @register_backend
    def naming(gm, inputs):
        name = " ".join(random.SystemRandom().choices(WORDS, k=3))
        return refuse(gm, f"engine {name} cannot be built: op erf has no kernel in the session of {name}")
"""
SCRIPT = """
    import engine
    import torch


    def f(x):
        for _ in range(3):
            x = torch.tanh(x * 2 + 1) / (torch.sigmoid(x) + 3)
        return torch.exp(torch.erf(torch.cos(x) - 1)) + torch.sin(x)


    torch.compile(f, backend="BACKEND")(torch.randn(4, 8))
"""


@pytest.mark.parametrize("backend", sampled(["naming", "listing"]))
def test_an_exception_with_another_message_each_time_is_reduced_to_its_op(project, backend):
    project.write(ENGINE, "engine.py")
    done = project.run(SCRIPT.replace("BACKEND", backend))
    assert done.code == 0 and done.result["ops_after"] == 1, done.stderr
    assert "return torch.erf(x)" in done.repro
    alone = run_alone(done.out / "repro.py", project.root / "elsewhere", path=project.folder)
    assert alone.returncode == 1 and "erf has no kernel" in alone.stderr
