"""Pictures of graphs as labelled boxes and edges: as Mermaid, and as SVG with classes only."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from minifier.data.case import Graph, TensorMeta
from minifier.data.case.graph import Node
from minifier.process.progress import counted
from minifier.repro.report.history import Probed

# Sizes are in pixels.
_CELL, _CELL_GAP, _CELLS_PER_ROW = 12, 3, 48
_BOX_WIDTH, _BOX_HEIGHT, _BOX_GAP, _ROW_HEIGHT = 168, 38, 20, 70
_CHAR_WIDTH = 7.2
_CHART_WIDTH, _CHART_HEIGHT, _LEFT_MARGIN, _BOTTOM_MARGIN = 720, 240, 56, 36
_LOG_SCALE_OPS = 30  # from so many ops on, the chart's scale is logarithmic


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


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
    return _svg(columns * step, rows * step, f"{counted(len(graph.ops), 'op')} of the graph as captured", parts)


def draw_reduced(graph: Graph) -> str:
    """Draw the whole graph: boxes in layers, each below its operands."""
    boxes = boxes_of(graph)
    layers = layers_of(boxes)
    widths = [_width(box) for box in boxes]
    layer_widths = [sum(widths[n] for n in layer) + _BOX_GAP * (len(layer) - 1) for layer in layers]
    width = max(layer_widths, default=_BOX_WIDTH) + 2
    left: dict[int, float] = {}
    top: dict[int, float] = {}
    for row, layer in enumerate(layers):
        x = (width - layer_widths[row]) / 2
        for number in layer:
            left[number], top[number] = x, row * _ROW_HEIGHT + 1
            x += widths[number] + _BOX_GAP
    parts = []
    for number, box in enumerate(boxes):
        for source in box.below:
            x1, y1 = left[source] + widths[source] / 2, top[source] + _BOX_HEIGHT
            x2, y2 = left[number] + widths[number] / 2, top[number]
            bend = (y2 - y1) / 2
            curve = f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
            parts.append(f'<path class="edge" d="{curve}"/>')
    for number, box in enumerate(boxes):
        parts.append(_box(box, left[number], top[number], widths[number]))
    return _svg(width, (len(layers) - 1) * _ROW_HEIGHT + _BOX_HEIGHT + 2, "The reduced graph", parts)


def _width(box: Box) -> float:
    return max(_BOX_WIDTH / 2, _CHAR_WIDTH * max(len(box.label), len(box.detail)) + 20)


def _box(box: Box, x: float, y: float, width: float) -> str:
    middle = x + width / 2
    lines = [(box.label, "label"), *([(box.detail, "detail")] if box.detail else [])]
    step = _BOX_HEIGHT / (len(lines) + 1)
    text = "".join(
        f'<text class="{name}" x="{middle:g}" y="{y + step * row + 4:g}">{escape(line)}</text>'
        for row, (line, name) in enumerate(lines, 1)
    )
    radius = _BOX_HEIGHT / 2 if box.kind == "input" else 4
    rect = f'<rect class="{box.kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{_BOX_HEIGHT}" rx="{radius:g}"/>'
    return rect + text


def size_over_probes(history: Sequence[Probed], whole: int, unit: str) -> str:
    """Draw the remaining ops or lines after each probe as a line. Each probe is a dot, filled if the failure showed.

    A dot stands at the size of its candidate. From a large size the scale is logarithmic. `unit` is `op` or `line`.
    """
    max_size = max([whole, *(probed.size for probed in history)], default=1)

    def point(number: float, size: float) -> tuple[float, float]:
        scaled = math.log1p(size) / math.log1p(max_size) if max_size >= _LOG_SCALE_OPS else size / max(max_size, 1)
        x = _LEFT_MARGIN + number / max(len(history), 1) * (_CHART_WIDTH - _LEFT_MARGIN - 10)
        return round(x, 1), round(10 + (1 - scaled) * (_CHART_HEIGHT - _BOTTOM_MARGIN - 10), 1)

    parts = [_axis(point, len(history), max_size)]
    remaining = whole
    x, y = point(0, remaining)
    line = [f"M{x:g} {y:g}"]
    for number, probed in enumerate(history, 1):
        x, y = point(number, probed.size)
        name = "same" if probed.kept else "other"
        parts.append(
            f'<circle class="{name}" cx="{x:g}" cy="{y:g}" r="3"><title>probe {number}, {escape(probed.step)}: '
            f"{counted(probed.size, unit)}, the failure {'was there' if probed.kept else 'was gone'}</title></circle>"
        )
        remaining = min(remaining, probed.size) if probed.kept else remaining
        x, y = point(number, remaining)
        line.append(f"H{x:g}V{y:g}")
    parts.insert(1, f'<path class="line" d="{"".join(line)}"/>')
    return _svg(_CHART_WIDTH, _CHART_HEIGHT, f"{unit.capitalize()}s left over probes", parts)


def _axis(point: Callable[[float, float], tuple[float, float]], probes: int, max_size: int) -> str:
    right, bottom = point(probes, 0)
    parts = [f'<path class="axis" d="M{_LEFT_MARGIN} 10V{bottom:g}H{right:g}"/>']
    for size in sorted({0, 1, max_size, *((round(math.sqrt(max_size)),) if max_size >= _LOG_SCALE_OPS else ())}):
        _, y = point(0, size)
        parts.append(f'<text class="tick left" x="{_LEFT_MARGIN - 8}" y="{y + 4:g}">{size}</text>')
    parts.append(f'<text class="tick" x="{_LEFT_MARGIN}" y="{bottom + 18:g}">0</text>')
    parts.append(f'<text class="tick left" x="{right:g}" y="{bottom + 18:g}">{probes} probes</text>')
    return "".join(parts)


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
