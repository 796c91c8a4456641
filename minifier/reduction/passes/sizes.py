"""Dynamic shapes to static shapes, and the numbers in shapes to small numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from minifier.data.case import Call, Case, ScalarInput, TensorInput, TensorMeta
from minifier.data.case.calls import values_of_symbols
from minifier.data.case.graph import with_leaves
from minifier.data.case.symbolic_sizes import as_dynamo_would, has_symbols, specialised
from minifier.data.torch_names import FLEX, LAUNCH
from minifier.reduction.passes.edits import Edit, Pass, Row, is_fixed, only, reshaped, row, with_tensors, without_dim

ALL_SIZES, ALONE = "all sizes", "no size but "  # rows that change several sizes
_MIN_SYMBOLIC_SIZE = 2  # Dynamo makes no symbol of 0 or 1


def _static(case: Case) -> list[Row]:
    static = row("dynamic shapes", specialised, change="Static sizes in the place of dynamic ones.")
    return [static] if specialised(case) != case else []


def numbers(case: Case) -> list[int]:
    """Return the numbers above 1 in the shapes of inputs and ops, the largest first.

    Empty next to a Triton kernel: the kernel would access memory beyond a smaller tensor, perhaps unnoticed."""
    if any(node.target == LAUNCH for node in case.graph.ops):
        return []
    inputs = [item.meta for item in _resizable(case)]
    computed = [node.value for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    return sorted({size for meta in (*inputs, *computed) for size in meta.shape if size > 1}, reverse=True)


def _resizable(case: Case) -> list[TensorInput]:
    return [item for item in case.tensor_inputs if not is_fixed(item)]


def _empty_to_one(case: Case) -> list[Row]:
    """Return a row that changes sizes of 0 to 1: a repro without empty inputs is clearer."""
    has_empty = any(0 in item.meta.shape for item in _resizable(case))
    return [row("size 0", _replaced(lambda n: n or 1, literals=False))] if has_empty else []


def smaller(number: int) -> list[int]:
    """Return the numbers to try instead: 1, 2, 3, powers of four, and `number - 1` with its last bits cleared.

    Repeated, this is a binary search: about 2.5 log2(number) steps to the smallest failing size."""
    candidates = [1, 2, 3, *(4**k for k in range(number.bit_length()))]
    below = number - 1
    candidates += [below >> bits << bits for bits in range(below.bit_length())]
    return sorted({n for n in candidates if n < number})


def _replaced(change: Callable[[int], int], *, literals: bool, earlier: bool = False) -> Edit:
    """Return an edit of the inputs' sizes; with `literals`, of the numbers in arguments of ops as well.

    With `earlier`, the edit is made in earlier calls of other graphs too.
    """

    def sized(item: TensorInput) -> TensorInput:
        return reshaped(item, tuple(map(change, item.meta.shape)))

    def with_sizes(case: Case) -> Case:
        changed = with_tensors(case, sized)
        return _with_numbers(changed, change) if literals else changed

    def with_earlier(case: Case) -> Case:
        def changed(call: Call) -> Call:
            if call.graph is None:
                return call
            resized = with_sizes(case.of(call))
            return replace(call, inputs=resized.inputs, graph=resized.graph)

        before = tuple(map(changed, case.before))
        return case if before == case.before else replace(case, before=before)

    def edit(case: Case) -> Case:
        resized = with_sizes(with_earlier(case) if earlier else case)
        inputs = tuple(
            replace(item, value=change(item.value))
            if isinstance(item, ScalarInput) and item.symbol is not None and type(item.value) is int
            else item
            for item in resized.inputs
        )
        resized = resized if inputs == resized.inputs else replace(resized, inputs=inputs)
        return as_dynamo_would(resized) if resized != case and has_symbols(case) else resized

    return edit


def size_edits(case: Case, old: int, new: int) -> tuple[Edit, ...]:
    """Return the edits that replace a number in the Case: first in all calls, then in that of its own graph alone."""
    return (*(to_number(old, new, earlier=True) if case.others else ()), *to_number(old, new))


def to_number(old: int, new: int, earlier: bool = False) -> tuple[Edit, ...]:
    """Return the edits that replace a number: with and without arguments of ops, then its multiples as well.

    Multiples cover a size that is the product of two other sizes. `earlier`: in earlier calls of other graphs too."""

    def same(n: int) -> int:
        return new if n == old else n

    def multiples(n: int) -> int:
        return n // old * new if n >= old and n % old == 0 else n

    return tuple(
        _replaced(change, literals=literals, earlier=earlier)
        for change in (same, multiples)
        for literals in (True, False)
    )


def _sizes(case: Case) -> list[Row]:
    sizes = numbers(case)
    symbolic = has_symbols(case)

    def fits(n: int) -> bool:
        return not symbolic or (n >= _MIN_SYMBOLIC_SIZE and n not in sizes)  # equal sizes would share a symbol

    rows = [Row(ALL_SIZES, tuple((edit,) for edit in all_sizes(case)))] if len(sizes) > 1 else []
    rows += [Row(f"size {n}", tuple(size_edits(case, n, m) for m in smaller(n) if fits(m))) for n in sizes]
    if symbolic:
        return [*rows, *_sizes_before(case)]
    alone = [Row(f"{ALONE}{n}", tuple(_alone(sizes, n, m) for m in (*smaller(n), n))) for n in sizes]
    return [*rows, *(_one_by_one(case) if sizes else ()), *_empty_to_one(case), *(alone if len(sizes) > 1 else ())]


def _alone(sizes: list[int], old: int, new: int) -> tuple[Edit, ...]:
    """Return the edits that replace a number, and all other numbers by 1, in a Case whose sizes are these still.

    For `x[1:] = x[:-1].clone()` inductor is wrong for the shapes (3, 1) and (7, 3), and for none in between."""

    def still(edit: Edit) -> Edit:
        return lambda case: edit(case) if numbers(case) == sizes else case

    return tuple(map(still, together({**dict.fromkeys(sizes, 1), old: new})))


def together(change: Mapping[int, int]) -> tuple[Edit, ...]:
    """Return the edits that replace several numbers at once, in all calls: with and without arguments of ops."""
    return tuple(_replaced(lambda n: change.get(n, n), literals=literals, earlier=True) for literals in (True, False))


def _sizes_before(case: Case) -> list[Row]:
    """Return a row for each size of an earlier call that is another than in the failing call."""

    def change(place: int, name: str, size: int) -> Edit:
        def edit(case: Case) -> Case:
            before = list(case.before)
            before[place] = replace(before[place], sizes=tuple({**dict(before[place].sizes), name: size}.items()))
            return replace(case, before=tuple(before))

        return edit

    numbers_before = [(place, *pair) for place, call in enumerate(case.before) for pair in call.sizes]
    sizes = [(place, name, size) for place, name, size in numbers_before if isinstance(size, int)]
    taken = {*(size for _, _, size in sizes), *values_of_symbols(case.inputs).values()}
    return [
        Row(
            f"compiled {name}",
            tuple((change(place, name, n),) for n in smaller(size) if n >= _MIN_SYMBOLIC_SIZE and n not in taken),
            "Another size in the place of the one that the code was compiled with before.",
        )
        for place, name, size in sizes
    ]


def _one_by_one(case: Case) -> list[Row]:
    """Return a row for each dimension whose size other dimensions have as well: only this dimension becomes 1.

    The numbers of this size in arguments of ops stay, or become 1 with it.
    """
    tensors = _resizable(case)
    sizes = [size for item in tensors for size in item.meta.shape]

    def row_of(item: TensorInput, dim: int) -> Row:
        edit, size = _to_one(item.name, dim), item.meta.shape[dim]
        with_numbers = _with_arguments(edit, lambda number: 1 if number == size else number)
        change = f"Dimension {dim} of `{item.name}` cut to 1."
        return Row(f"dimension {dim} of {item.name}", ((edit, with_numbers),), change)

    return [
        row_of(item, dim)
        for item in tensors
        for dim, size in enumerate(item.meta.shape)
        if size > 1 and sizes.count(size) > 1
    ]


def _with_arguments(edit: Edit, change: Callable[[int], int]) -> Edit:
    def changed(case: Case) -> Case:
        edited = edit(case)
        return edited if edited == case else _with_numbers(edited, change)

    return changed


def _with_numbers(case: Case, change: Callable[[int], int]) -> Case:
    def number(leaf: object) -> object:
        return change(leaf) if type(leaf) is int else leaf

    return replace(case, graph=with_leaves(case.graph, number))


def _to_one(name: str, dim: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        shape = item.meta.shape
        return reshaped(item, (*shape[:dim], 1, *shape[dim + 1 :])) if dim < len(shape) else item

    return only(name, change)


def all_sizes(case: Case) -> Iterator[Edit]:
    """Yield the edits that replace all numbers at once: by 1, by 2, then by 2, 3, 4, ...

    Symbolic sizes only get the last edits, because equal sizes would share a symbol."""
    sizes = sorted(numbers(case))
    if not sizes:
        return
    distinct = {n: min(n, i + 2) for i, n in enumerate(sizes)}
    if not has_symbols(case):
        yield from (*together(dict.fromkeys(sizes, 1)), *together(dict.fromkeys(sizes, 2)))
    yield from together(distinct)


def _dims(case: Case) -> list[Row]:
    """Return rows that remove dimensions of size 1: first dimensions by rank, then single dimensions.

    The numbers of later dimensions in arguments of ops stay, or count without it.
    """
    if _is_flex(case):
        return []

    def row_of(name: str, edit: Edit, dim: int, change: str) -> Row:
        return Row(name, ((edit, _with_arguments(edit, lambda number: number - (number > dim))),), change)

    tensors = _resizable(case)
    rows = []
    for rank in sorted({len(item.meta.shape) for item in tensors if 0 in _spare(item)}, reverse=True):
        change = f"Inputs of {rank} dimensions without the first one, of size 1."
        rows.append(row_of(f"first of {rank} dimensions", _without_first(rank), 0, change))
    for item, dim in ((each, dim) for each in tensors for dim in _spare(each)):
        change = f"`{item.name}` without its dimension {dim}, of size 1."
        rows.append(row_of(f"dimension {dim} of {item.name}", _without(item.name, dim), dim, change))
    return rows


def _spare(item: TensorInput) -> list[int]:
    """Return the dimensions of size 1; none for an input with a single dimension."""
    return [dim for dim, size in enumerate(item.meta.shape) if size == 1 and len(item.meta.shape) > 1]


def _without_first(rank: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return without_dim(item, 0) if len(item.meta.shape) >= rank and 0 in _spare(item) else item

    return lambda case: with_tensors(case, change)


def _without(name: str, dim: int) -> Edit:
    return only(name, lambda item: without_dim(item, dim) if dim in _spare(item) else item)


def without_ones(case: Case) -> Case:
    """Return the Case without dimensions of size 1; an input's only remaining dimension stays."""
    if _is_flex(case):
        return case

    def change(item: TensorInput) -> TensorInput:
        for dim in reversed(range(len(item.meta.shape))):
            item = without_dim(item, dim) if dim in _spare(item) else item
        return item

    return with_tensors(case, change)


def _is_flex(case: Case) -> bool:
    """Return whether flex attention is used: its public function requires four dimensions, the op does not check."""
    return any(node.target.startswith(FLEX) for node in case.graph.ops)


PASSES = (
    Pass("sizes", "numbers in shapes, inputs and arguments alike, to 1, 2, 3 or the smallest that fails", _sizes),
    Pass("dims", "dimensions of size one left out", _dims),
    Pass("static", "dynamic shapes to static ones", _static, asked=True),
)
