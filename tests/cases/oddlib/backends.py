"""Backends that run the graph eagerly, each with one fault."""

import logging
import os

import torch
from functorch.compile import make_boxed_func
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd

from oddlib.held import hold


class LoweringError(RuntimeError):
    """The compiler has no code for an op."""


def called(gm):
    """The plain names of the ops of a graph."""
    for node in gm.graph.nodes:
        if node.op == "call_method":
            yield node.target
        elif node.op == "call_function":
            yield getattr(node.target, "__name__", str(node.target))


def refuse(gm, *wanted):
    if set(wanted) <= set(called(gm)):
        raise LoweringError(f"no lowering for {' with '.join(wanted)}")


@register_backend
def oddlib_tanh(gm, example_inputs):
    refuse(gm, "tanh")
    return gm.forward


@register_backend
def oddlib_pair(gm, example_inputs):
    refuse(gm, "softmax", "tanh")
    return gm.forward


class Overflow(ArithmeticError):
    """A kernel met a value that it cannot hold."""


@register_backend
def oddlib_overwrites(gm, example_inputs):
    """The compiled function empties its inputs, then fails if one of them held something above 100."""

    def run(*args):
        high = any((value > 100).any() for value in args if isinstance(value, torch.Tensor))
        for value in args:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.detach().zero_()
        if high and "tanh" in set(called(gm)):
            raise Overflow("input above 100")
        return gm.forward(*args)

    return run


@register_backend
def oddlib_buffers(gm, example_inputs):
    """The results of a graph with a tanh are in the same memory after each call."""
    buffers = {}

    def run(*args):
        outputs = gm.forward(*args)
        if "tanh" not in set(called(gm)):
            return outputs
        return tuple(buffers.setdefault(i, torch.empty_like(y)).copy_(y).view(y.shape) for i, y in enumerate(outputs))

    return run


@register_backend
def oddlib_keeps_inputs(gm, example_inputs):
    """The second operand of a graph with a mul has the values of the first call in each call."""
    kept = []

    def run(*args):
        if "mul" not in set(called(gm)):
            return gm.forward(*args)
        kept.extend(value.clone() for value in args[1:2] if not kept)
        return gm.forward(*args[:1], *kept, *args[2:])

    return run


@register_backend
def oddlib_no_grad(gm, example_inputs):
    if not torch.is_grad_enabled():
        refuse(gm, "tanh")
    return gm.forward


@register_backend
def oddlib_slow(gm, example_inputs):
    """Waits where a test wants to find it, and says nothing about the ops that it cannot take together."""
    hold()
    if {"tanh", "softmax", "sigmoid"} <= set(called(gm)):
        raise LoweringError("no schedule found")
    return gm.forward


@register_backend
def oddlib_symbol(gm, example_inputs):
    """Cannot do a tanh where a size is symbolic."""
    if any(isinstance(value, torch.SymInt) for value in example_inputs):
        refuse(gm, "tanh")
    return gm.forward


def _of_unbacked_size(gm, example_inputs):
    for node in gm.graph.nodes:
        sizes = node.meta["val"].shape if isinstance(node.meta.get("val"), torch.Tensor) else ()
        is_unbacked = any(isinstance(size, torch.SymInt) and str(size).startswith("u") for size in sizes)
        if is_unbacked and "aten.tanh" in str(node.target):
            raise LoweringError("no lowering for aten.tanh of symbolic size")
    return make_boxed_func(gm.forward)


# A size that only a run tells has the symbol u0.
oddlib_aten_unbacked = register_backend(name="oddlib_aten_unbacked")(aot_autograd(fw_compiler=_of_unbacked_size))


def _of_fixed_size(gm, example_inputs):
    if not any(isinstance(size, torch.SymInt) for value in example_inputs for size in value.shape):
        refuse_aten(gm)
    return make_boxed_func(gm.forward)


def refuse_aten(gm):
    if any("aten.tanh" in str(node.target) for node in gm.graph.nodes):
        raise LoweringError("no lowering for aten.tanh")


oddlib_aten_static = register_backend(name="oddlib_aten_static")(aot_autograd(fw_compiler=_of_fixed_size))


@register_backend
def oddlib_symbol_at_run(gm, example_inputs):
    """Compiles what has a symbolic size; the compiled function then refuses its tanh."""
    symbolic = any(isinstance(value, torch.SymInt) for value in example_inputs)

    def run(*inputs):
        if symbolic:
            assert not any(isinstance(value, torch.SymInt) for value in inputs)
            refuse(gm, "tanh")
        return gm.forward(*inputs)

    return run


def at_level(gm, example_inputs, *, level, label="plain"):
    """Not registered: used through functools.partial."""
    if level >= 3:
        refuse(gm, "tanh")
    return gm.forward


class Compiler:
    """A backend that is an instance."""

    def __init__(self, level):
        self.level = level

    def __call__(self, gm, example_inputs):
        return at_level(gm, example_inputs, level=self.level)


strict = Compiler(level=3)


@register_backend
def oddlib_forgiving(gm, example_inputs):
    """What raises in eager gives zeros."""

    def run(*args):
        try:
            return gm.forward(*args)
        except RuntimeError:
            return (torch.zeros_like(args[0]),)

    return run


@register_backend
def oddlib_gives_up(gm, example_inputs):
    """Runs a graph that it cannot compile eagerly, and says so in its log."""
    if "tanh" in set(called(gm)):
        logging.getLogger("oddlib.compiler").info("%d ops looked at", len(gm.graph.nodes))
        logging.getLogger("oddlib.compiler").warning("graph of %d nodes runs in eager", len(gm.graph.nodes))
    return gm.forward


@register_backend
def oddlib_environment(gm, example_inputs):
    """Fails if torch's own switch was set in the environment when it was imported."""
    if os.environ.get("TORCHINDUCTOR_FREEZING") == "1":
        refuse(gm, "tanh")
    return gm.forward


@register_backend
def oddlib_switched(gm, example_inputs):
    """Fails if a switch of its own is set."""
    if os.environ.get("ODDLIB_FUSE", "").startswith("1"):
        refuse(gm, "tanh")
    return gm.forward


@register_backend
def oddlib_narrow(gm, example_inputs):
    """Gives back one element too few of each output."""
    return lambda *args: tuple(value.flatten()[1:] for value in gm.forward(*args))


@register_backend
def oddlib_detached(gm, example_inputs):
    """Forgets that its outputs have gradients."""
    return lambda *args: tuple(value.detach() for value in gm.forward(*args))


@register_backend
def oddlib_two_errors(gm, example_inputs):
    """Two errors of nearly the same text; a whole graph with both ops shows the first."""
    found = set(called(gm))
    if {"tanh", "layer_norm"} <= found:
        raise LoweringError("fusion.cc:120: cannot fuse tanh: unsupported producer layer_norm")
    if "tanh" in found:
        raise LoweringError("fusion.cc:188: cannot fuse tanh: missing producer of its value")
    return gm.forward


class _Checked(torch.fx.Interpreter):
    def run_node(self, n):
        if getattr(n.target, "__name__", n.target) == "cumsum" and (self.env[n.args[0]].sum(-1) > 1.5).any():
            raise Overflow("accumulator of cumsum ran over")
        return super().run_node(n)


@register_backend
def oddlib_values(gm, example_inputs):
    """Compiles; the compiled function fails where a row that goes into a cumsum has a sum above 1.5."""
    return _Checked(gm).run


@register_backend
def oddlib_wrong_and_narrow(gm, example_inputs):
    """Computes every sigmoid 2 % too large; and gives every exp as float64."""

    class Odd(torch.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            if n.target is torch.sigmoid:
                return value * 1.02
            return value.double() if n.target is torch.exp else value

    return lambda *inputs: Odd(gm).run(*inputs)
