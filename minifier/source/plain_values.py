"""Edits that put a plain value in the place of a computed one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.located import Located
from minifier.source.put_value import Edited, replaced
from minifier.source.run_facts import Tensor
from minifier.source.statement_edits import (
    Nodes,
    imported_names,
    is_compiled,
    is_compiling,
    names_backend,
    targets_in,
    unpacked,
)

_LITERAL = m.Integer() | m.Float() | m.SimpleString() | m.Lambda() | m.Name("True") | m.Name("False") | m.Name("None")
_SCALARS = {"float32": "1.0", "int64": "1", "bool": "True"}  # written as tensors of these dtypes
_COMPUTED = cst.Attribute, cst.BinaryOperation, cst.Call, cst.Comparison, cst.Subscript, cst.UnaryOperation


def plain_values(located: Located) -> Iterator[Edited]:
    """A value that is computed from variables becomes a plain one, outer expressions first.

    A number that is always the same becomes this number, a tensor `torch.ones` of the shape that it had. Where the
    script computes gradients, only tensors that none flow through: a new tensor would have no gradient.
    """
    has_gradients = "grad(" in located.source or "backward(" in located.source
    module, facts, imported = located.module, located.facts, imported_names(located.module)
    for node in _values(module):
        if literal := facts.number(node):
            yield from replaced(module, node, cst.parse_expression(literal))
            continue
        tensor = facts.tensor(node) if isinstance(node, _COMPUTED) and "torch" in imported else None
        if tensor is not None and not (tensor.has_history and has_gradients) and not _names(node) <= imported:
            yield from replaced(module, node, _ones(tensor))


def _values(module: cst.Module) -> Iterator[cst.BaseExpression]:
    """Yield the computed values, and the variables that are an argument or assigned, outer ones first."""
    bound = targets_in(module)
    for node in Nodes(module).nodes:
        if isinstance(node, (cst.Arg, cst.Assign)) and isinstance(node.value, cst.Name):
            yield node.value
        elif isinstance(node, _COMPUTED) and node not in bound and not is_compiling(getattr(node, "func", node)):
            yield node


def _names(node: cst.CSTNode) -> set[str]:
    """Return the names of variables in an expression."""
    tree = ast.parse(cst.Module([]).code_for_node(node).strip(), mode="eval")
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


def _ones(tensor: Tensor) -> cst.BaseExpression:
    if not tensor.shape and tensor.dtype in _SCALARS:
        return cst.parse_expression(f"torch.tensor({_SCALARS[tensor.dtype]})")
    sizes = ", ".join(map(str, tensor.shape)) or "()"
    dtype = "" if tensor.dtype == "float32" else f", dtype=torch.{tensor.dtype}"
    return cst.parse_expression(f"torch.ones({sizes}{dtype})")


def values_as_one(located: Located) -> Iterator[Edited]:
    """An argument, or an assigned value, becomes 1."""
    module, fixed = located.module, unpacked(located.module)
    nodes = Nodes(module).nodes
    bases = {base for node in nodes if isinstance(node, cst.ClassDef) for base in node.bases}
    compiled = {arg for node in nodes if isinstance(node, cst.Call) for arg in node.args[:1] if is_compiled(node, 0)}
    for node in nodes:
        if (
            isinstance(node, (cst.Arg, cst.Assign))
            and not (
                m.matches(node.value, _LITERAL)
                or names_backend(node)
                or m.matches(node, m.Arg(star=m.MatchIfTrue(bool)))
            )
            and node.value not in fixed
            and node not in bases
            and node not in compiled
        ):
            yield from replaced(module, node.value, cst.Integer("1"))
