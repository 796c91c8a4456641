"""A graph as nodes and edges with words on them: what Mermaid and the page's pictures are drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from minifier.case import Graph, TensorMeta
from minifier.case.graph import Node

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_LONGEST = 28


@dataclass(frozen=True, slots=True)
class Box:
    """One node; `kind` is `input`, `op` or `output`, `below` the boxes that it reads, by their number."""

    label: str
    detail: str
    kind: str
    below: tuple[int, ...]


def boxes_of(graph: Graph) -> tuple[Box, ...]:
    """A graph's nodes in their order, but for inputs that nothing reads (sizes that became numbers); tensors and graphs
    that it holds itself are inputs too."""
    number: dict[str, int] = {}
    found: list[Box] = []
    read = {name for node in graph.nodes for name in node.refs()}
    for node in graph.nodes:
        if node.op == "placeholder" and node.name not in read:
            continue
        below = tuple(dict.fromkeys(number[name] for name in node.refs() if name in number))
        kind = "op" if node.is_op else "output" if node.op == "output" else "input"
        label = node.short_target if node.is_op else str(node.target) if node.op == "get_attr" else kind
        number[node.name] = len(found)
        found.append(Box(_cut(label), _detail(node), kind, below))
    return tuple(found)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _detail(node: Node) -> str:
    value = node.value
    if not isinstance(value, TensorMeta):
        return ""
    name = value.dtype.rstrip("0123456789")
    dtype = _SHORT.get(name, name) + value.dtype[len(name) :]
    return f"{dtype}[{', '.join(str(size) for size in value.shape)}]"


def mermaid(boxes: tuple[Box, ...]) -> str:
    """The graph in the language of Mermaid, from inputs down to the output."""
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
    """The boxes by their longest way from an input; within a layer near to what they read. An input stands right above
    what first reads it."""
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
    for number, at in enumerate(depth):
        layers[at].append(number)
    place: dict[int, float] = {}
    for layer in layers:
        layer.sort(key=lambda number: _middle(boxes[number], place))
        place.update({number: at - len(layer) / 2 for at, number in enumerate(layer)})
    return tuple(map(tuple, layers))


def _middle(box: Box, place: Mapping[int, float]) -> float:
    known = [place[source] for source in box.below if source in place]
    return sum(known) / len(known) if known else 0.0


def op_kinds(graph: Graph) -> Iterator[tuple[str, int]]:
    """How often each op is called, the most frequent first."""
    counts: dict[str, int] = {}
    for node in graph.ops:
        counts[node.short_target] = counts.get(node.short_target, 0) + 1
    return iter(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
