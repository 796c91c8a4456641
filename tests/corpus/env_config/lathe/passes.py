"""Passes over Dynamo's graph; each changes it in place."""

import operator

import torch
from torch import fx


def without_dropout(graph):
    """Take out the dropout that evaluation mode makes idle."""
    for node in graph.nodes:
        if node.target is torch.nn.functional.dropout and node.kwargs.get("training", True) is False:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def scales_joined(graph):
    """Multiply by one number where a value is multiplied by two, one after the other."""
    for node in graph.nodes:
        first = node.args[0] if is_scale(node) else None
        if isinstance(first, fx.Node) and is_scale(first) and len(first.users) == 1:
            node.args = (first.args[0], first.args[1] * node.args[1])
            graph.erase_node(first)


def is_scale(node):
    return node.target is operator.mul and isinstance(node.args[1], float)


def copies_joined(graph):
    """Copy once where a transposed value is given another shape."""
    for node in graph.nodes:
        if node.op != "call_method" or node.target not in ("reshape", "view"):
            continue
        turned = node.args[0]
        if turned.op == "call_method" and turned.target == "transpose" and len(turned.users) == 1:
            source, first, second = turned.args
            with graph.inserting_before(node):
                # Numbers that are given one by one, not as a tuple, were not thought of.
                joined = graph.call_function(copy_as, (source, first, second, tuple(node.args[1])))
            node.replace_all_uses_with(joined)
            graph.erase_node(node)
            graph.erase_node(turned)


def copy_as(source, first, second, shape):
    return source.transpose(first, second).contiguous().view(shape)
