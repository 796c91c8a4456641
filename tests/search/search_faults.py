"""Faults to plant, and the prober that shows them: the vocabulary of the search's tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from minifier.search import Atoms, Problem

Fault = Callable[[Atoms], bool]
EMPTY: Atoms = frozenset()


@dataclass
class FakeProber:
    """Answers by a fault, and holds the search to its side of the contract."""

    fault: Fault
    workers: int = 1
    known: Collection[Atoms] = ()
    rounds: list[list[Atoms]] = field(default_factory=list)
    answers: dict[Atoms, bool] = field(default_factory=dict)

    def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
        assert 1 <= len(candidates) <= self.workers
        for candidate in candidates:
            assert candidate not in self.answers, "probed twice"
            assert candidate not in self.known, "asked what is known"
            self.answers[candidate] = self.fault(candidate)
        self.rounds.append(list(candidates))
        return [self.answers[candidate] for candidate in candidates]


@dataclass
class InterruptedProber(FakeProber):
    """Is interrupted instead of answering its n-th round, counted from 0."""

    at: int = 0

    def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
        if len(self.rounds) == self.at:
            raise KeyboardInterrupt
        return super().probe(candidates)


def needs(*atoms: int) -> Fault:
    """All of these must be there."""
    wanted = frozenset(atoms)
    return lambda candidate: wanted <= candidate


def needs_but_not(wanted: Collection[int], spoiler: int) -> Fault:
    """All of these, and that one not."""
    return lambda candidate: frozenset(wanted) <= candidate and spoiler not in candidate


def at_least(count: int, atoms: Collection[int]) -> Fault:
    """That many of these."""
    return lambda candidate: len(candidate & frozenset(atoms)) >= count


def any_of_each(problem: Problem, *kinds: str) -> Fault:
    """An op of every one of these kinds, whichever."""
    groups = [frozenset(of_kind(problem, kind)) for kind in kinds]
    return lambda candidate: all(group & candidate for group in groups)


def adjacent(problem: Problem, reader: str, read: str) -> Fault:
    """Any op of one kind that reads an op of another kind, both there."""
    edges = [
        (atom, parent)
        for atom, parents in enumerate(problem.parents)
        for parent in parents
        if (problem.kinds[atom], problem.kinds[parent]) == (reader, read)
    ]
    return lambda candidate: any(atom in candidate and parent in candidate for atom, parent in edges)


def truth_table(atoms: Sequence[int], rows: int) -> Fault:
    """Any boolean function at all of a few atoms: bit r of `rows` is the answer in row r."""

    def fault(candidate: Atoms) -> bool:
        row = sum(1 << place for place, atom in enumerate(atoms) if atom in candidate)
        return bool(rows >> row & 1)

    return fault


def hidden(fault: Fault, seed: int, percent: int = 30) -> Fault:
    """Some of the candidates that hold the fault fail in another way before it shows."""
    return lambda candidate: fault(candidate) and hash((seed, candidate)) % 100 >= percent


def whole_fails(problem: Problem, fault: Fault) -> Fault:
    """The fault, shown by the whole graph in any case: no search begins without that."""
    return lambda candidate: len(candidate) == problem.size or fault(candidate)


def is_one_minimal(kept: Atoms, fault: Fault) -> bool:
    """By trying it."""
    return fault(kept) and not any(fault(kept - {atom}) for atom in kept)


def of_kind(problem: Problem, kind: str) -> tuple[int, ...]:
    """All atoms of a kind."""
    return tuple(atom for atom, each in enumerate(problem.kinds) if each == kind)
