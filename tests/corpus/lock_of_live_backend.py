"""A wrong result of a backend that holds a lock and a tensor of a call: no script has it, and the op is named.

reach: exit 4
says: softplus
layer: test
"""

import threading

import torch


def lower(gm, weight, lock):
    is_wrong = any("softplus" in str(node.target) for node in gm.graph.nodes)

    def run(*args):
        with lock:
            return tuple(out + weight.sum() if is_wrong else out for out in gm.forward(*args))

    return run


def train(given):
    weight, lock = given
    model = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Softplus(), torch.nn.Hardtanh(-9, 9))
    with torch.no_grad():
        torch.compile(model, backend=lambda gm, args: lower(gm, weight, lock))(torch.randn(4))


list(map(train, [(torch.ones(3), threading.Lock())]))
