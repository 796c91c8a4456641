"""Pictures as SVG that take their colours from the page around them: classes, no style of their own."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from html import escape

from minifier.case import Graph
from minifier.report.drawing import Box, boxes_of, layers_of
from minifier.report.history import Probed

_CELL, _GAP, _A_ROW = 12, 3, 48
_BOX_WIDTH, _BOX_HEIGHT, _BETWEEN, _ROW = 168, 38, 20, 70
_CHAR = 7.2  # width of a letter in a box
_CHART_WIDTH, _CHART_HEIGHT, _LEFT, _BELOW = 720, 240, 56, 36
_LOGARITHMIC = 30  # ops from which on the chart counts in powers


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def overview(graph: Graph, kept: Collection[str]) -> str:
    """Every op of the graph as a cell, in the order in which they run, row by row; those that are `kept`, by name, are
    marked."""
    step = _CELL + _GAP
    parts = []
    for number, node in enumerate(graph.ops):
        row, column = divmod(number, _A_ROW)
        name = "kept" if node.name in kept else "gone"
        parts.append(
            f'<rect class="{name}" x="{column * step}" y="{row * step}" width="{_CELL}" height="{_CELL}" rx="2">'
            f"<title>{number + 1}: {escape(node.short_target)}</title></rect>"
        )
    rows = math.ceil(len(graph.ops) / _A_ROW)
    columns = min(len(graph.ops), _A_ROW)
    return _svg(columns * step, rows * step, f"The {len(graph.ops)} ops of the graph as captured", parts)


def draw_reduced(graph: Graph) -> str:
    """The whole graph: boxes in layers, what they read above them."""
    boxes = boxes_of(graph)
    layers = layers_of(boxes)
    widths = [_width(box) for box in boxes]
    lines = [sum(widths[n] for n in layer) + _BETWEEN * (len(layer) - 1) for layer in layers]
    width = max(lines, default=_BOX_WIDTH) + 2
    left: dict[int, float] = {}
    top: dict[int, float] = {}
    for at, layer in enumerate(layers):
        x = (width - lines[at]) / 2
        for number in layer:
            left[number], top[number] = x, at * _ROW + 1
            x += widths[number] + _BETWEEN
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
    return _svg(width, len(layers) * _ROW - _ROW + _BOX_HEIGHT + 2, "The draw_reduced graph", parts)


def _width(box: Box) -> float:
    return max(_BOX_WIDTH / 2, _CHAR * max(len(box.label), len(box.detail)) + 20)


def _box(box: Box, x: float, y: float, width: float) -> str:
    middle = x + width / 2
    lines = [(box.label, "label"), *([(box.detail, "detail")] if box.detail else [])]
    step = _BOX_HEIGHT / (len(lines) + 1)
    text = "".join(
        f'<text class="{name}" x="{middle:g}" y="{y + step * (at + 1) + 4:g}">{escape(line)}</text>'
        for at, (line, name) in enumerate(lines)
    )
    radius = _BOX_HEIGHT / 2 if box.kind == "input" else 4
    rect = f'<rect class="{box.kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{_BOX_HEIGHT}" rx="{radius:g}"/>'
    return rect + text


def size_over_probes(history: Sequence[Probed], whole: int) -> str:
    """How many ops were left after each probe, as a line; each probe is a dot at its size, filled if the failure was
    there. In powers where there are many ops."""
    most = max([whole, *(each.size for each in history)], default=1)

    def at(number: float, size: float) -> tuple[float, float]:
        scaled = math.log1p(size) / math.log1p(most) if most >= _LOGARITHMIC else size / max(most, 1)
        x = _LEFT + number / max(len(history), 1) * (_CHART_WIDTH - _LEFT - 10)
        return round(x, 1), round(10 + (1 - scaled) * (_CHART_HEIGHT - _BELOW - 10), 1)

    parts = [_axis(at, len(history), most)]
    least = whole
    x, y = at(0, least)
    line = [f"M{x:g} {y:g}"]
    for number, probed in enumerate(history, 1):
        x, y = at(number, probed.size)
        name = "same" if probed.kept else "other"
        parts.append(
            f'<circle class="{name}" cx="{x:g}" cy="{y:g}" r="3"><title>probe {number}, {escape(probed.step)}: '
            f"{probed.size} ops, the failure {'was there' if probed.kept else 'was gone'}</title></circle>"
        )
        least = min(least, probed.size) if probed.kept else least
        x, y = at(number, least)
        line.append(f"H{x:g}V{y:g}")
    parts.insert(1, f'<path class="line" d="{"".join(line)}"/>')
    return _svg(_CHART_WIDTH, _CHART_HEIGHT, "Ops left over probes", parts)


def _axis(at, probes: int, most: int) -> str:  # type: ignore[no-untyped-def]
    right, bottom = at(probes, 0)
    parts = [f'<path class="axis" d="M{_LEFT} 10V{bottom:g}H{right:g}"/>']
    for size in sorted({0, 1, most, *((round(math.sqrt(most)),) if most >= _LOGARITHMIC else ())}):
        _, y = at(0, size)
        parts.append(f'<text class="tick left" x="{_LEFT - 8}" y="{y + 4:g}">{size}</text>')
    parts.append(f'<text class="tick" x="{_LEFT}" y="{bottom + 18:g}">0</text>')
    parts.append(f'<text class="tick left" x="{right:g}" y="{bottom + 18:g}">{probes} probes</text>')
    return "".join(parts)
