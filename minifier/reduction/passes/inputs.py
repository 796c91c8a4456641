"""Inputs as a person would write them: the simplest values, contiguous, in default dtypes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from minifier.data.case import Case, Drawn, Stored, TensorInput, TensorMeta
from minifier.data.case.graph import with_leaves
from minifier.data.case.inputs import drawn_storages
from minifier.data.case.values import Constant, contiguous_stride, is_float
from minifier.reduction.passes.edits import Edit, Pass, Row, converted, only, row, with_tensors, without_gaps
from minifier.reduction.passes.sizes import smaller

_MAX_LISTED_ELEMENTS = 16  # as many as a person would still write out


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about an input's recorded values.

    The bounds are None if not finite or the tensor is empty. A small tensor has its `values`, row-major."""

    low: float | int | None
    high: float | int | None
    values: tuple[float | int | bool, ...] | None


Ladder = Callable[[TensorInput, Facts | None], Drawn | None]


def is_integer(dtype: str) -> bool:
    """Return whether the dtype has integers only; a boolean is none."""
    return dtype != "bool" and not is_float(dtype)


def plain(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return normal values for floats, zeros for integers, True for booleans.

    Zero is a valid index into every non-empty dimension."""
    if item.meta.dtype == "bool":
        return Drawn("ones") if item.meta.shape else Drawn("list", values=(True,))
    return Drawn("zeros") if is_integer(item.meta.dtype) else random(item, facts)


def lowest(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return the lowest recorded integer for all elements: an index may have to be below zero."""
    return _everywhere(facts.low) if facts is not None and is_integer(item.meta.dtype) else None


def highest(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return the highest recorded integer for all elements: an index may have to be beyond a bound."""
    return _everywhere(facts.high) if facts is not None and is_integer(item.meta.dtype) else None


def _everywhere(number: float | int | None) -> Drawn | None:
    return None if number is None else Drawn("full", int(number)) if number else Drawn("zeros")


def random(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return normal values for floats, integers within the recorded bounds, or zeros without bounds."""
    if is_float(item.meta.dtype):
        return Drawn("randn")
    if item.meta.dtype == "bool":
        return Drawn("bools")
    if facts is None or facts.low is None or facts.high is None:
        return Drawn("zeros")
    return Drawn("randint", int(facts.low), int(facts.high) + 1)


def bounded(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return uniform values within the recorded bounds."""
    if is_float(item.meta.dtype) and facts and facts.low is not None and facts.high is not None:
        if facts.low == facts.high:
            named = {0.0: "zeros", 1.0: "ones"}.get(facts.low)
            return Drawn(named) if named else Drawn("full", facts.low)
        low, high = (float(f"{bound:.3g}") for bound in (facts.low, facts.high))  # as a person would round them
        return Drawn("rand", low, high) if low < high else random(item, facts)
    return random(item, facts)


def written(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return the recorded values themselves, if few."""
    if facts is not None and facts.values is not None and item.meta.is_contiguous and not item.storage:
        return Drawn("list", values=facts.values)
    return None


_LADDER: tuple[Ladder, ...] = (plain, lowest, highest, random, bounded, written)


def data_rows(case: Case, facts: dict[str, Facts]) -> list[Row]:
    """Return a row for each input with recorded values, for each value at a cut, and for each shared storage."""
    tensors = case.tensor_inputs
    rows = []
    for views in drawn_storages(case.inputs).values():
        rows += [row(f"memory of {view.name}", only(view.name, with_own_memory)) for view in views]
    for item in tensors:
        name = f"values of {item.name}"
        if not isinstance(item.source, Drawn):
            rows.append(row(name, *_edits(item, facts.get(item.name))))
        elif item.source.how == "no memory":
            rows.append(row(name, *_edits(item, None)[:1], with_source({item.name}, Drawn("zeros"))))
        elif item.source.how == "zeros" and not is_integer(item.meta.dtype):  # a value at a cut
            rows.append(row(name, *_edits(item, None)[:1]))
    return [*rows, *_storage_rows(tensors, facts)]


def _storage_rows(tensors: Iterable[TensorInput], facts: dict[str, Facts]) -> list[Row]:
    """Return a row for each storage with recorded values that several inputs share: its values are generated."""
    groups: dict[str, list[TensorInput]] = {}
    for item in tensors:
        if isinstance(item.source, Stored) and item.source.shared and item.source.base is None:
            groups.setdefault(item.source.key, []).append(item)
    return [
        row(f"values of {', '.join(view.name for view in views)}", *_edits_of_storage(key, views, facts))
        for key, views in groups.items()
        if len(views) > 1 and all(map(_may_be_a_view, views)) and len({view.meta.dtype for view in views}) == 1
    ]


def _may_be_a_view(item: TensorInput) -> bool:
    meta = item.meta
    is_ordinary = not (item.parameter or item.inference or meta.requires_grad or any(meta.symbols))
    return is_ordinary and meta.elements > 0


def _edits_of_storage(key: str, views: Sequence[TensorInput], facts: dict[str, Facts]) -> list[Edit]:
    """Return edits that generate the storage: with its views one after another, then placed more like the captured."""
    bounds = _joined(facts[view.name] for view in views if view.name in facts)
    sources = dict.fromkeys(rung(views[0], bounds) for rung in (plain, random, bounded))
    drawn = [replace(source, storage=key) for source in sources if source is not None]
    names = {view.name for view in views}
    return [
        *(_drawn_apart(source, names) for source in drawn[:1]),
        *(edit for source in drawn for edit in (_drawn_without_gaps(source, names), with_source(names, source))),
    ]


def _joined(facts: Iterable[Facts]) -> Facts | None:
    """Return the bounds of the values of all these inputs, or None if no input has finite bounds."""
    bounds = [(each.low, each.high) for each in facts if each.low is not None and each.high is not None]
    return Facts(min(low for low, _ in bounds), max(high for _, high in bounds), None) if bounds else None


def _drawn_apart(source: Drawn, names: Collection[str]) -> Edit:
    """Return an edit that generates the storage of contiguous views that follow one another."""

    def edit(case: Case) -> Case:
        start = 0

        def change(item: TensorInput) -> TensorInput:
            nonlocal start
            if item.name not in names:
                return item
            stride = contiguous_stride(item.meta.shape)
            moved = replace(item, source=source, meta=replace(item.meta, stride=stride, offset=start))
            start += item.meta.elements
            return moved

        return with_tensors(case, change)

    return edit


def _drawn_without_gaps(source: Drawn, names: Collection[str]) -> Edit:
    return lambda case: without_gaps(with_source(names, source)(case))


def with_own_memory(item: TensorInput) -> TensorInput:
    """Return the input with generated values of its own, if it is a view of a generated storage; else itself."""
    source = item.source
    if not isinstance(source, Drawn) or source.storage is None:
        return item
    return replace(item, source=replace(source, storage=None), meta=replace(item.meta, offset=0, storage=None))


def _edits(item: TensorInput, facts: Facts | None) -> list[Edit]:
    sources = dict.fromkeys(rung(item, facts) for rung in _LADDER)
    return [with_source({item.name}, source) for source in sources if source is not None]


def with_source(names: Collection[str], source: Drawn) -> Edit:
    """Return an edit that generates the values of the named inputs in this way."""

    def change(item: TensorInput) -> TensorInput:
        return replace(item, source=source) if item.name in names else item

    return lambda case: with_tensors(case, change)


def is_small(elements: int) -> bool:
    """Return whether a repro lists the values of so many elements."""
    return elements <= _MAX_LISTED_ELEMENTS


def _restrided(name: str, strides: Callable[[TensorMeta], tuple[int, ...]]) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return replace(item, meta=replace(item.meta, stride=strides(item.meta), offset=0, storage=None))

    return only(name, change)


def _dense(meta: TensorMeta) -> tuple[int, ...]:
    """Return strides without gaps or overlaps that keep the order of the dimensions in memory."""
    strides, step = [0] * len(meta.shape), 1
    for dim in sorted(range(len(meta.shape)), key=lambda dim: (meta.stride[dim], -dim)):
        strides[dim] = step
        step *= max(meta.shape[dim], 1)
    return tuple(strides)


def _stored_in(name: str, elements: int) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return replace(item, storage=elements, meta=item.meta if elements else replace(item.meta, offset=0))

    return only(name, change)


def _layout(case: Case) -> list[Row]:
    """Return a row for each generated input that is a window of a larger storage, and for each with other strides.

    Stored values keep the strides that they were stored with.
    """
    drawn = [item for item in case.tensor_inputs if isinstance(item.source, Drawn)]
    rows = []
    for item in (each for each in drawn if each.storage):
        sizes = [size for size in smaller(item.storage) if size >= item.meta.offset + item.meta.span]
        change = f"The storage of `{item.name}` cut to what `{item.name}` itself takes, or to a smaller one."
        rows.append(row(f"storage of {item.name}", *(_stored_in(item.name, n) for n in (0, *sizes)), change=change))
    for item in (each for each in drawn if not each.meta.has_default_stride):
        plain_strides = _restrided(item.name, lambda meta: contiguous_stride(meta.shape))
        edits = plain_strides, _restrided(item.name, _dense)
        rows.append(row(f"stride of {item.name}", *edits, change=f"`{item.name}` made contiguous."))
    return rows


_KINDS = (
    ("float32", "float64", "float16", "bfloat16"),
    ("int64", "int32", "int16", "int8", "uint8"),
    ("complex64", "complex128"),
)


def dtypes_like(dtype: str) -> tuple[str, ...]:
    """Return the common dtypes of the same kind."""
    return next((kind for kind in _KINDS if dtype in kind), ())


def dtype_edits(old: str, new: str) -> tuple[Edit, ...]:
    """Return the edits that replace a dtype: of inputs and arguments together, of inputs alone, of arguments alone."""
    return tuple(
        _converted(old, new, inputs=inputs, arguments=arguments)
        for inputs, arguments in ((True, True), (True, False), (False, True))
    )


def _default_dtype(dtype: str) -> str:
    if dtype.startswith("complex"):
        return "complex64"
    if is_float(dtype):
        return "float32"
    return "int64" if dtype.startswith(("int", "uint")) else dtype


def _converted(old: str, new: str, *, inputs: bool, arguments: bool) -> Edit:
    def changed(leaf: object) -> object:
        is_old = isinstance(leaf, Constant) and (leaf.kind, leaf.name) == ("dtype", old)
        return Constant("dtype", new) if is_old else leaf

    def edit(case: Case) -> Case:
        if inputs:
            case = with_tensors(case, lambda item: converted(item, new) if item.meta.dtype == old else item)
        graph = with_leaves(case.graph, changed) if arguments else case.graph
        return case if graph is case.graph else replace(case, graph=graph)

    return edit


def _dtypes(case: Case) -> list[Row]:
    dtypes = {item.meta.dtype for item in case.tensor_inputs}

    def note(leaf: object) -> object:
        if isinstance(leaf, Constant) and leaf.kind == "dtype":
            dtypes.add(leaf.name)
        return leaf

    with_leaves(case.graph, note)
    edits = {dtype: dtype_edits(dtype, _default_dtype(dtype)) for dtype in sorted(dtypes)}
    change = "torch's default dtype of the same kind in the place of"
    return [
        Row(dtype, (edits[dtype][:1], edits[dtype][1:]), f"{change} `{dtype}`.")
        for dtype in edits
        if _default_dtype(dtype) != dtype
    ]


PASSES = (
    Pass("layout", "strides of inputs to plain contiguous, storages no larger than needed", _layout),
    Pass("dtypes", "floating dtypes to float32, integers to int64", _dtypes),
)
