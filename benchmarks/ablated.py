"""`minify` without one of its ideas, to see what that is worth: `python benchmarks/ablated.py NAME run SCRIPT...`.

Each replaces one function of the tool in this process, before the command starts; children are forked from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def without_guess() -> None:
    """Nothing of what the error names is tried first."""
    from minifier.reduction.op_search import OpSearchAdapter

    problem = OpSearchAdapter.problem
    OpSearchAdapter.problem = lambda self: replace(problem(self), hints=())  # type: ignore[method-assign]


def without_live_outs() -> None:
    """A candidate returns what the whole graph returns and its last op's result, no more; what leads to neither goes,
    as dead code does. So ops stay that only carry a value from one guilty op to the other."""
    from minifier.data.case import Ref, ops

    subset = ops.subset

    def cut(graph: Any, names: Collection[str]) -> Any:
        made = subset(graph, names)
        if not made.ops:
            return made
        returned = set(graph.output.refs()) | {made.ops[-1].name}
        kept = tuple(Ref(name) for name in dict.fromkeys(made.output.refs()) if name in returned)
        needed = {ref.name for ref in kept}
        for node in reversed(made.nodes[:-1]):
            if node.name in needed:
                needed.update(node.refs())
        nodes = [node for node in made.nodes[:-1] if node.name in needed]
        return replace(made, nodes=(*nodes, replace(made.output, args=(kept,))))

    ops.subset = cut  # type: ignore[attr-defined]


def with_ddmin() -> None:
    """Zeller and Hildebrandt's ddmin (2002) over the atoms, in place of guess, prefix, ball and deletion."""
    from minifier import search

    def reduce(problem: Any, prober: Any, **_: Any) -> search.Result:
        kept, parts, probes = sorted(problem.everything), 2, 0

        def fails(atoms: Collection[int]) -> bool:
            nonlocal probes
            probes += 1
            return bool(atoms) and bool(prober.probe([frozenset(atoms)])[0])

        while len(kept) > 1:
            size = -(-len(kept) // parts)
            chunks = [kept[i : i + size] for i in range(0, len(kept), size)]
            rests = [sorted(set(kept) - set(chunk)) for chunk in chunks]
            smaller = next((c for c in chunks if fails(c)), None)
            if smaller is not None:
                kept, parts = smaller, 2
                continue
            smaller = next((c for c in rests if len(chunks) > 2 and fails(c)), None)
            if smaller is not None:
                kept, parts = smaller, max(parts - 1, 2)
            elif parts >= len(kept):
                break
            else:
                parts = min(2 * parts, len(kept))
        return search.Result(frozenset(kept), search.Ending.PROVED, probes, probes, ())

    search.reduce = reduce  # type: ignore[assignment]


ABLATIONS: dict[str, Callable[[], None]] = {
    "no guess": without_guess,
    "no live-outs": without_live_outs,
    "ddmin": with_ddmin,
}


def main() -> None:
    """The command without what the first argument names."""
    import importlib

    name = sys.argv.pop(1)
    importlib.import_module("torch")
    ABLATIONS[name]()
    importlib.import_module("minifier.flow.cli").main()


if __name__ == "__main__":
    main()
