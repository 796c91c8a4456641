"""Sizes: dynamic shapes to static ones, and each number that occurs in shapes to a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from minifier.case import Case, Level, ScalarInput, TensorInput, TensorMeta
from minifier.case.graph import with_leaves
from minifier.case.symbolic_sizes import as_dynamo_would, has_symbols, specialised
from minifier.case.targets import FLEX, LAUNCH
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.resized import is_fixed, reshaped, with_tensors, without_dim

_FIRST = (1, 2, 3)
_LEAST_SYMBOLIC = 2  # a size of 0 or 1 is no symbol


def _static(case: Case) -> list[Row]:
    return [row("dynamic shapes", specialised)] if has_symbols(case.inputs) else []


def numbers(case: Case) -> list[int]:
    """The numbers above one in the shapes of inputs and of what the ops make of them, the largest first. None where no
    other number can be put in: in graphs of AOTAutograd's with symbols, and where a Triton kernel is launched, which
    would go beyond the ends of smaller tensors, and might not even tell."""
    symbolic = case.level is not Level.DYNAMO and has_symbols(case.inputs)
    if symbolic or any(node.target == LAUNCH for node in case.graph.ops):
        return []
    inputs = [item.meta for item in case.inputs if isinstance(item, TensorInput) and not is_fixed(item)]
    made = [node.value for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    return sorted({size for meta in (*inputs, *made) for size in meta.shape if size > 1}, reverse=True)


def smaller(number: int) -> list[int]:
    """What to try for a number: 1, 2, 3, powers of four, then the one below it with fewer and fewer of its last bits
    left out. Over several rounds that is a binary search: a failure that shows from some size on is found at its
    smallest in about 2.5 log2(number) steps."""
    tried = [*_FIRST, *(4**k for k in range(number.bit_length()))]
    below = number - 1
    tried += [below >> bits << bits for bits in range(below.bit_length())]
    return sorted({n for n in tried if n < number})


def _replaced(change: Callable[[int], int], *, literals: bool) -> Edit:
    """The Case with the sizes of inputs changed; with `literals` the numbers in arguments of ops as well."""

    def number(leaf: object) -> object:
        return change(leaf) if type(leaf) is int else leaf

    def sized(item: TensorInput) -> TensorInput:
        return reshaped(item, tuple(map(change, item.meta.shape)))

    def edit(case: Case) -> Case:
        made = with_tensors(case, sized)
        inputs = tuple(
            replace(item, value=change(item.value))
            if isinstance(item, ScalarInput) and item.symbol is not None and type(item.value) is int
            else item
            for item in made.inputs
        )
        graph = with_leaves(made.graph, number) if literals else made.graph
        made = made if graph is made.graph and inputs == made.inputs else replace(made, graph=graph, inputs=inputs)
        return as_dynamo_would(made) if made != case and has_symbols(case.inputs) else made

    return edit


def to_number(old: int, new: int) -> tuple[Edit, ...]:
    """A number replaced by another: in arguments too, in inputs alone, and in both with its multiples, as where a size
    is the product of two others."""

    def same(n: int) -> int:
        return new if n == old else n

    def multiples(n: int) -> int:
        return n // old * new if n >= old and n % old == 0 else n

    return (
        _replaced(same, literals=True),
        _replaced(same, literals=False),
        _replaced(multiples, literals=True),
        _replaced(multiples, literals=False),
    )


def _sizes(case: Case) -> list[Row]:
    found = numbers(case)
    symbolic = has_symbols(case.inputs)

    def fits(n: int) -> bool:
        return not symbolic or (n >= _LEAST_SYMBOLIC and n not in found)  # equal sizes would share a symbol

    rows = [Row(f"size {n}", tuple(to_number(n, m) for m in smaller(n) if fits(m))) for n in found]
    return rows if symbolic or not found else [*rows, *_one_by_one(case)]


def _one_by_one(case: Case) -> list[Row]:
    """Each dimension of each input by itself to one, of those whose size is that of others as well."""
    tensors = [item for item in case.inputs if isinstance(item, TensorInput) and not is_fixed(item)]
    sizes = [size for item in tensors for size in item.meta.shape]
    return [
        row(f"dimension {dim} of {item.name}", _to_one(item.name, dim))
        for item in tensors
        for dim, size in enumerate(item.meta.shape)
        if size > 1 and sizes.count(size) > 1
    ]


def _to_one(name: str, dim: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        shape = item.meta.shape
        if item.name != name or dim >= len(shape):
            return item
        return reshaped(item, (*shape[:dim], 1, *shape[dim + 1 :]))

    return lambda case: with_tensors(case, change)


def all_sizes(case: Case) -> Iterator[Edit]:
    """Every number at once: all to one, in arguments too and in inputs alone, then all to two, then to two, three,
    four and so on. The last is all there is for symbolic sizes: equal ones would share a symbol."""
    found = sorted(numbers(case))
    if not found:
        return
    apart = {n: min(n, i + 2) for i, n in enumerate(found)}
    maps: list[Callable[[int], int]] = [lambda n: apart.get(n, n)]
    if not has_symbols(case.inputs):
        maps = [lambda n: 1 if n in apart else n, lambda n: 2 if n in apart else n, *maps]
    for each in maps:
        yield _replaced(each, literals=True)
        yield _replaced(each, literals=False)


def _dims(case: Case) -> list[Row]:
    """The first dimension of all inputs that have the most, and each of each input, where it is of size one."""
    if _is_flex(case):
        return []
    tensors = [item for item in case.inputs if isinstance(item, TensorInput) and not is_fixed(item)]
    ranks = sorted({len(item.meta.shape) for item in tensors if 0 in _spare(item)}, reverse=True)
    return [
        *(row(f"first of {rank} dimensions", _without_first(rank)) for rank in ranks),
        *(row(f"dimension {dim} of {item.name}", _without(item.name, dim)) for item in tensors for dim in _spare(item)),
    ]


def _spare(item: TensorInput) -> list[int]:
    """The dimensions of size one, of more than one."""
    return [dim for dim, size in enumerate(item.meta.shape) if size == 1 and len(item.meta.shape) > 1]


def _without_first(rank: int) -> Edit:
    """Without the first dimension of inputs that have at least so many."""

    def change(item: TensorInput) -> TensorInput:
        return without_dim(item, 0) if len(item.meta.shape) >= rank and 0 in _spare(item) else item

    return lambda case: with_tensors(case, change)


def _without(name: str, dim: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return without_dim(item, dim) if item.name == name and dim in _spare(item) else item

    return lambda case: with_tensors(case, change)


def without_ones(case: Case) -> Case:
    """Every input without its dimensions of one; where that are all, with the last."""
    if _is_flex(case):
        return case

    def change(item: TensorInput) -> TensorInput:
        for dim in reversed(range(len(item.meta.shape))):
            item = without_dim(item, dim) if dim in _spare(item) else item
        return item

    return with_tensors(case, change)


def _is_flex(case: Case) -> bool:
    """Whether there is flex attention, whose public function takes four dimensions, though the op does not look."""
    return any(node.target.startswith(FLEX) for node in case.graph.ops)


PASSES = (
    Pass("sizes", "numbers in shapes, inputs and arguments alike, to 1, 2, 3 or the smallest that fails", _sizes),
    Pass("dims", "dimensions of size one left out", _dims),
    Pass("static", "dynamic shapes to static ones", _static, asked=True),
)
