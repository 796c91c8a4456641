"""A graph as labelled boxes and edges, the common form of Mermaid and the page's pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from minifier.case import Graph, TensorMeta
from minifier.case.graph import Node

_SHORT_DTYPES = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_MAX_LABEL_CHARS = 28


@dataclass(frozen=True, slots=True)
class Box:
    """A node. `kind` is `input`, `op` or `output`; `below` has the numbers of the boxes that the node reads."""

    label: str
    detail: str
    kind: str
    below: tuple[int, ...]


def boxes_of(graph: Graph) -> tuple[Box, ...]:
    """Return the graph's nodes in order. The graph's own tensors and nested graphs count as inputs.

    Inputs that no node reads are left out: sizes that became numbers.
    """
    number: dict[str, int] = {}
    boxes: list[Box] = []
    read = {name for node in graph.nodes for name in node.refs()}
    for node in graph.nodes:
        if node.op == "placeholder" and node.name not in read:
            continue
        below = tuple(dict.fromkeys(number[name] for name in node.refs() if name in number))
        kind = "op" if node.is_op else "output" if node.op == "output" else "input"
        label = node.short_target if node.is_op else str(node.target) if node.op == "get_attr" else kind
        number[node.name] = len(boxes)
        boxes.append(Box(_cut(label), _detail(node), kind, below))
    return tuple(boxes)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LABEL_CHARS else text[: _MAX_LABEL_CHARS - 1] + "…"


def _detail(node: Node) -> str:
    value = node.value
    if not isinstance(value, TensorMeta):
        return ""
    name = value.dtype.rstrip("0123456789")
    dtype = _SHORT_DTYPES.get(name, name) + value.dtype[len(name) :]
    return f"{dtype}[{', '.join(str(size) for size in value.shape)}]"


def mermaid(boxes: tuple[Box, ...]) -> str:
    """Return the graph as Mermaid, from inputs down to the output."""
    lines = ["flowchart TD"]
    for number, box in enumerate(boxes):
        text = _quoted(box.label) + (f"<br/>{_quoted(box.detail)}" if box.detail else "")
        left, right = ("([", "])") if box.kind == "input" else ("[", "]")
        lines.append(f'    n{number}{left}"{text}"{right}')
    lines += [f"    n{source} --> n{number}" for number, box in enumerate(boxes) for source in box.below]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    for char, entity in (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(char, entity)
    return text


def layers_of(boxes: tuple[Box, ...]) -> tuple[tuple[int, ...], ...]:
    """Return layers of boxes by their longest path from an input.

    Within a layer, boxes are close to the boxes that they read. An input is right above its first reader.
    """
    depth: list[int] = []
    for box in boxes:
        depth.append(1 + max((depth[source] for source in box.below), default=-1))
    readers: dict[int, int] = {}
    for number, box in enumerate(boxes):
        for source in box.below:
            readers[source] = min(readers.get(source, depth[number]), depth[number])
    for number, box in enumerate(boxes):
        if box.kind == "input" and number in readers:
            depth[number] = readers[number] - 1
    layers: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for number, layer_number in enumerate(depth):
        layers[layer_number].append(number)
    position: dict[int, float] = {}
    for layer in layers:
        layer.sort(key=lambda number: _mean_source_position(boxes[number], position))
        position.update({number: column - len(layer) / 2 for column, number in enumerate(layer)})
    return tuple(map(tuple, layers))


def _mean_source_position(box: Box, position: Mapping[int, float]) -> float:
    known = [position[source] for source in box.below if source in position]
    return sum(known) / len(known) if known else 0.0


def op_kinds(graph: Graph) -> Iterator[tuple[str, int]]:
    """Return each op and its number of calls, the most frequent first."""
    counts: dict[str, int] = {}
    for node in graph.ops:
        counts[node.short_target] = counts.get(node.short_target, 0) + 1
    return iter(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
