import json
from pathlib import Path

import torch


@torch._dynamo.register_backend
def acme(gm, example_inputs):
    refused = json.loads(Path("acme.json").read_text())["refused"] if Path("acme.json").exists() else ""
    if any(node.target is getattr(torch, refused, None) for node in gm.graph.nodes):
        raise NotImplementedError(f"no lowering for {refused}")
    return gm.forward
