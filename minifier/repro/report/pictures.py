"""Pictures of graphs: the captured one as a map of cells in SVG, the reduced one as Mermaid."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import escape

from minifier.data.case import Graph, TensorMeta
from minifier.data.case.graph import Node
from minifier.process.progress import counted

_CELL, _CELL_GAP, _CELLS_PER_ROW = 12, 3, 48  # the first two in pixels


def overview(graph: Graph, kept: Collection[str]) -> str:
    """Draw every op as a cell, row by row in the graph's order, and mark the ops named in `kept`."""
    step = _CELL + _CELL_GAP
    parts = []
    for number, node in enumerate(graph.ops):
        row, column = divmod(number, _CELLS_PER_ROW)
        name = "kept" if node.name in kept else "gone"
        parts.append(
            f'<rect class="{name}" x="{column * step}" y="{row * step}" width="{_CELL}" height="{_CELL}" rx="2">'
            f"<title>{number + 1}: {escape(node.short_target)}</title></rect>"
        )
    rows = math.ceil(len(graph.ops) / _CELLS_PER_ROW)
    columns = min(len(graph.ops), _CELLS_PER_ROW)
    width, title = columns * step, f"{counted(len(graph.ops), 'op')} of the graph as captured"
    return (
        f'<svg viewBox="0 0 {width} {rows * step}" width="{width}" role="img" aria-label="{title}">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


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


def op_kinds(graph: Graph) -> Iterator[tuple[str, int]]:
    """Return each op and its number of calls, the most frequent first."""
    counts: dict[str, int] = {}
    for node in graph.ops:
        counts[node.short_target] = counts.get(node.short_target, 0) + 1
    return iter(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
