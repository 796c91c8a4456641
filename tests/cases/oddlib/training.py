"""Backends on AOTAutograd whose backward pass has one fault, and some that do their backward pass themselves."""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd

from oddlib.backends import LoweringError, Overflow, called
from oddlib.deadly import end

TOLD = {"op": "tanh_backward", "stage": "compile", "how": "raise", "call": 1}


def names(gm):
    return {str(node.target).removeprefix("aten.").partition(".")[0] for node in gm.graph.nodes}


def plain(gm, example_inputs):
    return make_boxed_func(gm.forward)


def strike(how, what):
    if how == "raise":
        raise LoweringError(f"no lowering for {what}")
    end(how)


@register_backend
def oddlib_trains(gm, example_inputs, *, options=None):
    """Ends somehow (`how`) where the backward graph has the op, while it is compiled or when it runs for the
    `call`-th time; `empties`: having freed its arguments, as compiled code does to save memory."""
    told = {**TOLD, **(options or {})}

    def backward(graph, inputs):
        if told["op"] not in names(graph):
            return plain(graph, inputs)
        if told["stage"] == "compile":
            strike(told["how"], told["op"])
            return plain(graph, inputs)
        calls = 0

        def run(args):
            nonlocal calls
            calls += 1
            given = list(args)
            if told.get("empties"):
                args.clear()
            if calls == told["call"]:
                strike(told["how"], told["op"])
            return graph.forward(*given)

        run._boxed_call = True
        return run

    return aot_autograd(fw_compiler=plain, bw_compiler=backward)(gm, example_inputs)


class _Reversed(torch.autograd.Function):
    """Gives its value on; the gradient is mirrored along the last dimension, which nobody sees who is given ones."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(-1)


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise Overflow("gradient of tanh ran over")


def _after_tanh(gm, function):
    class Changed(torch.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            return function.apply(value) if getattr(n.target, "__name__", n.target) == "tanh" else value

    return Changed(gm).run if "tanh" in set(called(gm)) else gm.forward


@register_backend
def oddlib_mirrors(gm, example_inputs):
    """No AOTAutograd: autograd does the backward pass, wrongly for gradients that are not the same everywhere."""
    return _after_tanh(gm, _Reversed)


@register_backend
def oddlib_raises_in_autograd(gm, example_inputs):
    """No AOTAutograd: the forward pass is right, the backward pass raises."""
    return _after_tanh(gm, _Refused)


def _mirrored(graph, inputs):
    def run(args):
        results = graph.forward(*args)
        mirrors = "tanh_backward" in names(graph)
        return [r.flip(-1) if mirrors and isinstance(r, torch.Tensor) else r for r in results]

    run._boxed_call = True
    return run


oddlib_mirrors_aten = register_backend(name="oddlib_mirrors_aten")(
    aot_autograd(fw_compiler=plain, bw_compiler=_mirrored)
)


def _refusing(graph, inputs):
    if "tanh" in names(graph):
        raise LoweringError("no lowering for aten.tanh")
    return plain(graph, inputs)


@register_backend
def oddlib_lowers(gm, example_inputs):
    """Lowers a tanh of its own accord before AOTAutograd, but for inputs with a mark, which no Case has."""
    if not any(hasattr(value, "odd_mark") for value in example_inputs):
        for node in gm.graph.nodes:
            if node.target is torch.tanh:
                node.target = torch.sigmoid
        gm.recompile()
    return aot_autograd(fw_compiler=_refusing, bw_compiler=plain)(gm, example_inputs)


def _refusing_symbols(graph, inputs):
    for node in graph.graph.nodes:
        sizes = node.meta["val"].shape if isinstance(node.meta.get("val"), torch.Tensor) else ()
        if any(isinstance(size, torch.SymInt) for size in sizes) and "tanh_backward" in str(node.target):
            raise LoweringError("no lowering for tanh_backward of symbolic size")
    return plain(graph, inputs)


oddlib_backward_symbol = register_backend(name="oddlib_backward_symbol")(
    aot_autograd(fw_compiler=plain, bw_compiler=_refusing_symbols)
)


def _no_two_sums(graph, inputs):
    made = {node: node.all_input_nodes[0] for node in graph.graph.nodes if "aten.sum" in str(node.target)}
    of = [node if "view" not in str(node.target) else node.all_input_nodes[0] for node in made.values()]
    if len(set(of)) < len(of):
        raise LoweringError("no lowering for two sums of one value")
    return plain(graph, inputs)


oddlib_trains_two_sums = register_backend(name="oddlib_trains_two_sums")(
    aot_autograd(fw_compiler=plain, bw_compiler=_no_two_sums)
)
