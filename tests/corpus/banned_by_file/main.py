r"""The backend reads what it refuses from a file beside the script: the repro has the data.

reach: exit 0, 1 op
shows: Compiler\((banned=)?\["tanh"\]\)
hides: json|relu
layer: test
"""

import json
from pathlib import Path

import torch


class Compiler:
    def __init__(self, banned):
        self.banned = banned

    def __call__(self, gm, inputs):
        for node in gm.graph.nodes:
            if getattr(node.target, "__name__", "") in self.banned:
                raise ValueError(f"banned {node.target.__name__}")
        return gm.forward


compiler = Compiler(json.loads((Path(__file__).parent / "banned.json").read_text()))
torch.compile(lambda x: torch.relu(torch.tanh(torch.sin(x)) + 1), backend=compiler)(torch.ones(3))
