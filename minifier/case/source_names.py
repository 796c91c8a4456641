"""The names that inputs of a graph have in the user's program; Dynamo joins them to names of placeholders."""

from __future__ import annotations

import re

from minifier.case.graph import Graph

_STEP = re.compile("_(?:modules|parameters|buffers)_")  # from an object to its module, parameter or buffer
_TENSOR = re.compile("_(?:parameters|buffers)_")


def source_names(graph: Graph) -> dict[str, str]:
    """Map Dynamo's placeholders to names in the program: a variable, or a path below the model like `l1.weight`."""
    names = {node.name: _source_name(node.target) for node in graph.placeholders if node.target.startswith("L_")}
    return {node: name for node, name in names.items() if name}


def _source_name(target: str) -> str:
    """Return the name behind a placeholder's target, such as `L_self_modules_l1_parameters_weight_`."""
    joined = target.removeprefix("L_").strip("_")
    if _TENSOR.search(joined) is None:
        return joined
    _, *path = _STEP.split(joined)
    return ".".join(path)
