"""Cases of the engine's tests: chains and trees of ops that run in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from case_samples import call, graph, meta, output, placeholder
from fake_prober import raises, seen_failure

from minifier.data.case import (
    BackendReference,
    BackendSource,
    Case,
    Drawn,
    Node,
    Ref,
    ScalarInput,
    Script,
    State,
    TensorInput,
    TensorMeta,
)
from minifier.reduction.probe.children import ChildEnd

NO_BACKEND = BackendReference("eager", BackendSource.REGISTERED, '"eager"')
UNARY = ("cos", "sin", "exp", "tanh", "sigmoid", "relu", "neg", "abs", "square", "floor", "ceil", "round")


def case_of(*nodes: Node, failing: ChildEnd = raises(), **more: Any) -> Case:  # noqa: B008 - it is frozen
    """The Case of these nodes: inputs are drawn, and the failure is how the whole graph ended."""
    made = graph(*nodes)
    inputs = [
        TensorInput(node.name, node.value, Drawn("randn"))
        if isinstance(node.value, TensorMeta)
        else ScalarInput(node.name, node.value.value)
        for node in made.placeholders
    ]
    state = State(grad=False)
    case = Case(made, tuple(inputs), NO_BACKEND, seen_failure(failing, made.free_names), state, Script("failing"))
    return replace(case, **more)


def chain(*ops: str, shape: Sequence[int] = (2, 3), failing: ChildEnd = raises(), **more: Any) -> Case:  # noqa: B008
    """x -> torch.OP -> ... -> out, each op a function of one tensor; nodes are called after their ops."""
    value = meta(*shape)
    nodes, last = [placeholder("x", value)], "x"
    for op in ops:
        name = op if all(node.name != op for node in nodes) else f"{op}_{len(nodes)}"
        nodes.append(call(name, f"torch.{op}", Ref(last), value=value))
        last = name
    return case_of(*nodes, output(last), failing=failing, **more)


def random_tree(random: Random, size: int, **more: Any) -> Case:
    """So many ops, each of which reads one or two values made before it; nodes are n0, n1, ..."""
    names = ["x"]
    nodes = [placeholder("x")]
    for number in range(size):
        if random.random() < 0.4:
            target, reads = random.choice(("torch.add", "torch.mul")), random.choices(names, k=2)
        else:
            target, reads = f"torch.{random.choice(UNARY)}", [random.choice(names[-4:])]
        nodes.append(call(f"n{number}", target, *map(Ref, reads)))
        names.append(f"n{number}")
    used = {name for node in nodes for name in node.refs()}
    ends = [name for name in names[1:] if name not in used]
    return case_of(*nodes, output(*ends), **more)


def names(case: Case) -> list[str]:
    """The names of the graph's ops."""
    return [node.name for node in case.graph.ops]
