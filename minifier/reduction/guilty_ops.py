"""Tells the ops that make the graph's own results wrong from ops whose wrong values do not affect these results."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from minifier.case import Case, Graph, TensorMeta
from minifier.case.in_place import is_in_place
from minifier.case.ops import atoms, written_storage
from minifier.case.serial import unpack
from minifier.failure import Difference, Stage, same
from minifier.failure.from_comparison import failure_of_differences
from minifier.failure.likeness import is_alike
from minifier.probe.evaluate import evaluate
from minifier.reduction.eagers_values import returning, with_eagers_values
from minifier.reduction.probe_runner import Atom, Causes, ProbeRunner

_MAX_OUTPUT_BYTES = 2**29  # all values of the graph together; several copies are in memory at once
_MAX_ITEM_BYTES = 8

_OUTPUT = re.compile(r"output (\d+)$")
_CHANGED_INPUT = re.compile(r"input (\w+) after the call$")


def wrong_values(runner: ProbeRunner, case: Case) -> dict[str, list[Difference]]:
    """Return the differences of each op whose compiled value differs from eager's, in the graph's order.

    The graph runs once with every value as a result. It is compiled differently then: nothing can be fused away. Empty
    if all values together are too large."""
    ops = [(node.name, node.value.elements) for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    if sum(elements for _, elements in ops) * _MAX_ITEM_BYTES > _MAX_OUTPUT_BYTES:
        return {}
    names = [name for name, _ in ops]
    candidate = replace(case, graph=returning(case.graph, names), backward=False)
    differences: dict[str, list[Difference]] = {node.name: [] for node in case.graph.ops}
    for each in _compared(runner, candidate) or ():
        if (match := _OUTPUT.match(each.where)) and int(match[1]) < len(names):
            differences[names[int(match[1])]].append(each)
        elif match := _CHANGED_INPUT.match(each.where):
            for name in _writers(case.graph, match[1]):
                differences[name].append(each)
    return {name: each for name, each in differences.items() if each}


def _writers(graph: Graph, name: str) -> list[str]:
    """Return the ops that change this input in place."""
    value = graph.node(name).value if name in graph.index else None
    storage = value.storage if isinstance(value, TensorMeta) else None
    in_place = [node for node in graph.ops if is_in_place(node)]
    return [node.name for node in in_place if storage is not None and written_storage(graph, node) == storage]


def find_causes(runner: ProbeRunner, case: Case, suspects: Collection[str]) -> Causes:
    """Find the suspects that make the graph's results wrong: eager's values in their places make the results right.

    Of an op and the ops that read its value, the op itself is guilty. Takes about log2(n) runs for each guilty op. If a
    run fails, nothing is known."""
    guilty = _guilty(runner, case, [group for group in atoms(case.graph) if not set(group).isdisjoint(suspects)])
    if not guilty:
        return Causes()
    names = {name for group in guilty for name in group}
    corrected = with_eagers_values(case, names)
    still_wrong = wrong_values(runner, corrected) if corrected is not None and corrected.graph.ops else {}
    innocent = {name for name, each in still_wrong.items() if shows(case, each)}
    order = case.graph.index
    return Causes(
        True,
        tuple(sorted(guilty, key=lambda group: order[group[0]])),
        frozenset(innocent.difference(case.graph.output.refs())),
    )


def _guilty(runner: ProbeRunner, case: Case, groups: Sequence[Atom]) -> list[Atom]:
    """Return the fewest of the atoms whose replacement makes the results right; [] if that is not known."""
    groups = [group for group in groups if with_eagers_values(case, group) is not None]
    guilty: list[Atom] = []
    if not groups or not is_right(runner, case, groups):
        return []
    while groups:
        low, high = 0, len(groups)  # the first `high` groups suffice, together with the guilty; the first `low` do not
        while high - low > 1:
            middle = (low + high) // 2
            if (right := is_right(runner, case, [*guilty, *groups[:middle]])) is None:
                return []
            low, high = (low, middle) if right else (middle, high)
        guilty.append(groups[high - 1])
        groups = groups[: high - 1]
        if (right := is_right(runner, case, guilty)) is not False:
            return guilty if right else []
    return []


def shows(case: Case, differences: Sequence[Difference]) -> bool:
    """Return whether the differences are the Case's failure, and not a far smaller one."""
    if not differences:
        return False
    failure = failure_of_differences(differences, case.failure.fingerprint)
    return same(case.failure.fingerprint, failure.fingerprint) and is_alike(case.failure, failure)


def _compared(runner: ProbeRunner, candidate: Case) -> tuple[Difference, ...] | None:
    """Return the candidate's differences from eager; None if nothing could be compared. A flaky failure gets several
    runs, up to the first with a difference."""
    differences: tuple[Difference, ...] = ()
    for _ in range(runner.repeats):
        (result,) = runner.run([lambda: evaluate(runner.prepared, candidate, Stage.COMPARE)])
        if result is None or (result["status"] != "pass" and "differences" not in result):
            return None
        differences = unpack(tuple[Difference, ...], result.get("differences", []))
        if differences:
            break
    return differences


def is_right(runner: ProbeRunner, case: Case, groups: Sequence[Atom]) -> bool | None:
    """Return whether the failure is gone with eager's values in the places of these atoms' results.

    None if that could not be tried."""
    candidate = with_eagers_values(case, {name for group in groups for name in group})
    if candidate is None:
        return None
    if not any(candidate.graph.output.refs()) and not any(map(is_in_place, candidate.graph.ops)):
        return True
    differences = _compared(runner, candidate)
    return None if differences is None else not shows(case, differences)
