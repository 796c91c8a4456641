"""Graphs of atoms to search in, shaped like the networks that people compile."""

from __future__ import annotations

from random import Random

from minifier.search import Problem

# (kind, what it reads): a position in the layer, or -1 for what came into the layer.
_LAYER = (
    ("layer_norm", (-1,)),
    ("linear", (0,)),  # queries, keys and values
    ("matmul", (1,)),
    ("div", (2,)),
    ("softmax", (3,)),
    ("matmul", (4, 1)),
    ("linear", (5,)),
    ("add", (6, -1)),
    ("layer_norm", (7,)),
    ("linear", (8,)),
    ("gelu", (9,)),
    ("linear", (10,)),
    ("add", (11, 7)),
)


def transformer(n: int) -> Problem:
    """n ops: an embedding, layers of 13 ops with their residuals (the last layer cut short), a head."""
    parents: list[tuple[int, ...]] = [()]
    kinds = ["embedding"]
    stream = 0
    while len(kinds) < n - 1:
        base = len(kinds)
        for kind, reads in _LAYER[: n - 1 - base]:
            parents.append(tuple(stream if read < 0 else base + read for read in reads))
            kinds.append(kind)
        stream = len(kinds) - 1
    parents.append((stream,))
    kinds.append("lm_head")
    return Problem(tuple(parents), tuple(kinds))


def chain_of(problem: Problem, length: int, random: Random) -> frozenset[int]:
    """`length` atoms, each of which reads the one before it, drawn at random."""
    while True:
        chain = [random.randrange(problem.size)]
        while len(chain) < length and problem.parents[chain[-1]]:
            chain.append(random.choice(problem.parents[chain[-1]]))
        if len(chain) == length:
            return frozenset(chain)


def scattered(problem: Problem, count: int, random: Random) -> frozenset[int]:
    """`count` atoms from anywhere."""
    return frozenset(random.sample(range(problem.size), count))
