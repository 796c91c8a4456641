import json
from pathlib import Path

import torch

refused = json.loads(Path("acme.json").read_text())["refused"]


@torch._dynamo.register_backend
def acme(gm, example_inputs):
    if any(node.target is getattr(torch, refused, None) for node in gm.graph.nodes):
        raise NotImplementedError(f"no lowering for {refused}")
    return gm.forward
