"""Source text for each half of the joint graph, run by exec; what cannot be written goes back to eager.

Fault: the text of a backward half names a saved value that the writer has renamed, for `aten.rsqrt`.
"""

from __future__ import annotations

import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func


class NotLowerable(NotImplementedError):
    pass


def _text(graph: torch.fx.Graph, constants: dict[str, object]) -> str:
    lines, arguments = [], []
    for node in graph.nodes:
        if node.op == "placeholder":
            arguments.append(node.name)
        elif node.op == "call_function":
            constants[f"op_{node.name}"] = node.target
            keywords = [f"{key}={value!r}" for key, value in node.kwargs.items()]
            lines.append(f"{node.name} = op_{node.name}({', '.join([*map(repr, node.args), *keywords])})")
        elif node.op == "output":
            lines.append(f"return {node.args[0]!r}")
        else:
            raise NotLowerable(node.op)
    return "\n    ".join([f"def half({', '.join(arguments)}):", *lines])


def _compile(gm: torch.fx.GraphModule, inputs: list[torch.Tensor], backward: bool):
    constants: dict[str, object] = {"device": torch.device, "torch": torch, "None_": None}
    text = _text(gm.graph, constants)
    if backward:
        head, colon, body = text.partition(":")
        text = head.replace("rsqrt", "rsqrt_saved") + colon + body
    exec(compile(text, "<half>", "exec"), constants)
    return make_boxed_func(constants["half"])


def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    try:
        return aot_module_simplified(
            gm,
            inputs,
            fw_compiler=lambda half, given: _compile(half, given, backward=False),
            bw_compiler=lambda half, given: _compile(half, given, backward=True),
        )
    except NotLowerable:
        return gm.forward
