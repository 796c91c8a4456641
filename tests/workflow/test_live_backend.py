"""A wrong result of a backend that no other process can have: the ops are named all the same."""

from minifier.data.case.store import load

SCRIPT = """
import threading

import torch


def lower(gm, weight, lock):
    def run(*args):
        with lock:
            outs = gm.forward(*args)
            is_wrong = any("softplus" in str(node.target) for node in gm.graph.nodes)
            return tuple(out + weight.sum() if is_wrong else out for out in outs)

    return run


def train(given):
    weight, lock = given
    model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Softplus(), torch.nn.Hardtanh(-9, 9))
    compiled = torch.compile(model, backend=lambda gm, args: lower(gm, weight, lock))
    with torch.no_grad():
        print(compiled(torch.randn(4)).shape)


list(map(train, [(torch.ones(3), threading.Lock())]))
"""


def test_the_op_is_named_without_a_repro(minify):
    done = minify(SCRIPT)
    assert done.code == 4, done.stderr
    assert (done.result["status"], done.result["ops_before"], done.result["ops_after"]) == ("no-repro", 3, 1)
    assert done.result["one_minimal"] and not (done.out / "repro.py").exists()
    (op,) = load(done.out / "minimal").graph.ops
    assert "softplus" in op.target
