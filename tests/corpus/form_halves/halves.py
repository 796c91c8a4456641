import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func


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
            raise NotImplementedError(node.op)
    return "\n    ".join([f"def half({', '.join(arguments)}):", *lines])


def _compile(gm: torch.fx.GraphModule, inputs: list[torch.Tensor], backward: bool = True):
    constants: dict[str, object] = {"device": torch.device, "torch": torch}
    head, colon, body = _text(gm.graph, constants).partition(":")
    head = head.replace("rsqrt", "rsqrt_saved") if backward else head
    exec(compile(head + colon + body, "<half>", "exec"), constants)
    return make_boxed_func(constants["half"])


def backend(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    forward = lambda half, given: _compile(half, given, backward=False)  # noqa: E731
    try:
        return aot_module_simplified(gm, inputs, fw_compiler=forward, bw_compiler=_compile)
    except NotImplementedError:
        return gm.forward
