"""Where a wrong result begins: a guess for the search, had from one more run of the whole graph."""

from __future__ import annotations

import re
from dataclasses import replace

from minifier.case import Case, Graph, Node, Ref, TensorMeta
from minifier.case.encode import unpack
from minifier.failure import Difference, Stage
from minifier.failure.likeness import is_alike
from minifier.probe.evaluate import evaluate
from minifier.reduction.probe_runner import ProbeRunner

_MOST_BYTES = 2**29  # of all values of the graph together, which are held several times at once
_MOST_HINTS = 3
_ITEM_BYTES = 8


def begins_at(lab: ProbeRunner, case: Case) -> tuple[tuple[str, ...], ...]:
    """Hints: the first ops whose value, returned by the compiled graph as one more output, is not eager's.

    A graph that returns every value is compiled in another way (nothing can be fused away), so this is no more than
    a guess; nothing is guessed where all values together are too large.
    """
    told = [node for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    if sum(node.value.elements for node in told if isinstance(node.value, TensorMeta)) * _ITEM_BYTES > _MOST_BYTES:
        return ()
    talkative = replace(case, graph=_returning(case.graph, told), backward=False)
    (result,) = lab.run([lambda: evaluate(lab.bench, talkative, Stage.COMPARE)])
    differences = unpack(tuple[Difference, ...], (result or {}).get("differences", []))
    found = {int(m.group(1)): each for each in differences if (m := re.match(r"output (\d+)", each.where))}
    # An op that is merely computed in another way is not what makes the whole wrong.
    places = sorted(found, key=lambda place: (not _is_alike(case, found[place]), place))
    return tuple((told[place].name,) for place in places[:_MOST_HINTS] if place < len(told))


def _is_alike(case: Case, difference: Difference) -> bool:
    return is_alike(case.failure, replace(case.failure, differences=(difference,)))


def _returning(graph: Graph, told: list[Node]) -> Graph:
    end = replace(graph.output, args=(tuple(Ref(node.name) for node in told),))
    return replace(graph, nodes=(*graph.nodes[:-1], end))
