"""What backends refuse, or compute wrongly, each one thing: what a graph has to keep for that is known."""

import torch


def _nodes(gm, *names):
    return [node for node in gm.graph.nodes if getattr(node.target, "__name__", node.target) in names]


def _value(node):
    return node.meta["example_value"]


def _inside(gm):
    return [node for held in gm.children() if isinstance(held, torch.fx.GraphModule) for node in held.graph.nodes]


def _reaches(node, other):
    return any(user is other or _reaches(user, other) for user in node.users)


# What is refused, by the name of the backend: a function of the graph and its inputs.
REFUSED = {
    "relu": lambda gm, inputs: _nodes(gm, "relu"),
    "two_elements": lambda gm, inputs: any(_value(n).numel() >= 2 for n in _nodes(gm, "relu")),
    "multiple_of_eight": lambda gm, inputs: any(_value(n).shape[-1] % 8 == 0 for n in _nodes(gm, "relu")),
    "more_than_ten": lambda gm, inputs: any(_value(n).shape[1:2] > (10,) for n in _nodes(gm, "relu")),
    "exactly_48": lambda gm, inputs: any(48 in _value(n).shape for n in _nodes(gm, "relu")),
    "three_dims": lambda gm, inputs: any(_value(n).dim() == 3 for n in _nodes(gm, "relu")),
    "view_to_heads": lambda gm, inputs: any(_value(n).shape[2] > 2 for n in _nodes(gm, "view")),
    "matmul": lambda gm, inputs: _nodes(gm, "matmul"),
    "half": lambda gm, inputs: any(_value(n).dtype == torch.float16 for n in _nodes(gm, "relu")),
    "conversion": lambda gm, inputs: any(_value(n).dtype == torch.bfloat16 for n in _nodes(gm, "to")),
    "index": lambda gm, inputs: _nodes(gm, "embedding"),
    "strided": lambda gm, inputs: any(not _value(n.args[0]).is_contiguous() for n in _nodes(gm, "relu")),
    "two_inputs": lambda gm, inputs: any(n.args[0] is not n.args[1] for n in _nodes(gm, "mul")),
    "scale": lambda gm, inputs: _nodes(gm, "clamp"),
    "approximate": lambda gm, inputs: any(n.kwargs.get("approximate") == "tanh" for n in _nodes(gm, "gelu")),
    "gelu": lambda gm, inputs: _nodes(gm, "gelu"),
    "nan": lambda gm, inputs: _nodes(gm, "relu") and torch.isnan(inputs[0]).any(),
    "overlapping": lambda gm, inputs: _nodes(gm, "relu") and torch._debug_has_internal_overlap(inputs[0]) == 1,
    "large": lambda gm, inputs: _nodes(gm, "relu") and inputs[0].max() > 5,
    "layer_norm": lambda gm, inputs: _nodes(gm, "layer_norm"),
    "relu_before_sin": lambda gm, inputs: any(_reaches(a, b) for a in _nodes(gm, "relu") for b in _nodes(gm, "sin")),
    "cast_and_back": lambda gm, inputs: len(_nodes(gm, "float")) % 2 == 0 and _nodes(gm, "sin"),
    "cos_inside": lambda gm, inputs: any("cos" in str(node.target) for node in _inside(gm)),
    "requires_grad": lambda gm, inputs: any(_value(n).requires_grad for n in _nodes(gm, "relu")),
}


def refuse(gm, inputs, *, what):
    """The backend of this name, which is not registered."""
    if REFUSED[what](gm, inputs):
        raise NotImplementedError(f"{what}: refused")
    return gm.forward


def distort(gm, inputs, *, what):
    """A backend that is wrong at the ops of these names: `gt relu exp>float64 log1p?len(ops)==1`.

    Bools are negated, and 0.25 is added to other results, in place where the op is in place; behind `>` stands the
    dtype of a result that is right otherwise. Behind `?` stands a condition on the names of all ops in the graph."""
    ops = [getattr(n.target, "__name__", n.target) for n in gm.graph.nodes if n.op.startswith("call_")]
    pairs = [each.partition("?")[::2] for each in what.split()]
    wrong = dict(name.partition(">")[::2] for name, condition in pairs if eval(condition or "True", {"ops": ops}))

    class Distorting(torch.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            name = getattr(n.target, "__name__", n.target)
            dtype = wrong.get(name)
            if n.op == "placeholder" or dtype is None:
                return value
            if dtype:
                return value.to(getattr(torch, dtype))
            if value is None:  # setitem
                self.env[n.args[0]].add_(0.25)
                return value
            if name.endswith("_"):
                return value.add_(0.25)
            return ~value if value.dtype is torch.bool else value + 0.25

    return Distorting(gm).run
