"""Measures what the minimal Case needs besides its ops, and finds the nearest Case that passes."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from minifier.data.case import Case, Drawn, Stored, TensorInput
from minifier.data.case.calls import without_other_inputs
from minifier.data.case.expressions import floats_in_tensors
from minifier.data.case.inputs import bases, views_among
from minifier.reduction.passes.arguments import literal_steps
from minifier.reduction.passes.edits import Edit, Row, with_tensors
from minifier.reduction.passes.inputs import dtype_edits, dtypes_like, is_integer, plain, with_own_memory, with_source
from minifier.reduction.passes.sizes import ALL_SIZES, ALONE, numbers, size_edits, together
from minifier.reduction.passes.table import DATA
from minifier.reduction.probe_runner import Spent
from minifier.reduction.simplify import Simplifier

DRAWS = 8  # of a variant, before it is said to pass
_MAX_ELEMENTS = 4096  # of an input that is drawn, as its values stand in the Case

_INFORMATIVE = ("literals", "sizes", "dtypes", "layout", "data", "arguments")  # passes, the most informative first
_SIZE, _STRIDE = "size ", "stride of "
_AT_LEAST = "a size of {} or more"
_FEW_DRAWS = range(4, DRAWS)  # of a smaller size, where values do not matter; with both signs
_MIN_SHARE = 0.5  # of the minimal Case's draws that fail: with fewer, eight passing draws may be chance
_OPS = ("bypass", "pairs", "merge", "together")  # passes whose rejected rows only repeat that no op can go


@dataclass
class Needs:
    """What the failure needs: `sentences` for the repro, and `changes` after which the failure was gone.

    Each was measured on the minimal Case. A change is the sentence of a row of a pass. `passing` has (pass,
    variant) pairs of which each draw passed. `interrupted`: Ctrl-C ended the measurement.
    """

    sentences: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    passing: list[tuple[str, Case]] = field(default_factory=list)
    interrupted: bool = False


def measured_needs(simplifier: Simplifier) -> Needs:
    """Measure what the simplifier's Case needs, as far as the time goes. What is not measured is not said."""
    needs = Needs()
    if simplifier.case.any_graph or not simplifier.finished:
        return needs
    simplifier.begin_needs()
    try:
        with contextlib.suppress(Spent):
            _Measurement(simplifier, needs).run()
    except KeyboardInterrupt:
        needs.interrupted = True
    needs.sentences[:] = dict.fromkeys(filter(None, needs.sentences))
    needs.changes[:] = dict.fromkeys(filter(None, needs.changes))
    return needs


class _Measurement:
    """Asks for variants of the minimal Case.

    Where values matter, a variant passes only if eight draws of its inputs do. `_values_matter` is false for a failure
    while compiling that no row about values was rejected for.
    """

    def __init__(self, simplifier: Simplifier, needs: Needs) -> None:
        self.simplifier, self.needs, self.case = simplifier, needs, simplifier.case
        of_values = any(family == "data" for family, _ in simplifier.rejected)
        self._values_matter = of_values or not self.case.ignores_values
        self._gone: list[list[Case]] = []  # the programs of each row after which the failure was gone
        self._strided = set[str]()  # inputs that pass when they are contiguous, of any size

    def run(self) -> None:
        """Measure the rejected rows of the passes, then what the Case itself tells of its inputs."""
        rows = [
            (family, row)
            for family, name in self.simplifier.rejected
            if family not in ("data", *_OPS) and not name.startswith((ALL_SIZES, ALONE))
            if (row := self.simplifier.row(family, name)) is not None
        ]
        views, values = views_among(self.case.inputs), self._inputs_with_values()
        steps = literal_steps(self.case) if self.simplifier.wants("literals") else []
        if not (rows or views or values or steps or self.case.has_other_inputs) or not self._is_steady():
            return
        strided = {_STRIDE + item.name: item for item in self.case.tensor_inputs if not item.meta.is_contiguous}
        rows.sort(key=lambda pair: (not pair[1].name.startswith(_STRIDE), pair[0] not in ("sizes", "dtypes")))
        self.simplifier.expected = self._expected(rows)
        for family, row in rows:
            if family == "sizes" and row.name.startswith(_SIZE):
                self.needs.sentences.append(self._size(row))
            elif family == "dtypes":
                sentence = self._dtype(row.name)
                self.needs.sentences.append(sentence)
                if not sentence and self._is_row_gone(family, row):
                    self.needs.changes.append(row.change)
            elif self._is_row_gone(family, row):
                self.needs.changes.append(row.change)
                if strided_input := strided.get(row.name):
                    if self._any_shows(family, row.edits) is False:
                        meta = strided_input.meta
                        overlap = " (its elements overlap in memory)" if meta.span < meta.elements else ""
                        self.needs.sentences.append(f"an input that is not contiguous{overlap}")
                    self._strided.add(strided_input.name)
        programs = self.simplifier.programs
        alike = programs([without_other_inputs]) if self.case.has_other_inputs else []
        if alike and self._pass(alike):
            self._note_passing("sizes", alike)
            other = "another size" if any(call.has_other_sizes for call in self.case.before) else "other values"
            self.needs.sentences.append(f"code that was compiled with {other}")
        if views and self._pass(programs([_without_sharing])):
            self.needs.sentences.append("inputs that share memory")
        for item in values:
            self._measure_values(item)
        for step in steps:
            self._any_shows("literals", [step])

    def _expected(self, rows: Sequence[tuple[str, Row]]) -> Iterator[Case]:
        """Yield the first candidates of rows, which most answers of other rows leave to be asked for."""
        for family, row in rows:
            if family == "dtypes":
                edits = [edit for other in dtypes_like(row.name) for edit in dtype_edits(row.name, other)]
                programs = self._programs(edits)
            elif family == "sizes" and (size := int(row.name.removeprefix(_SIZE)) if row.name.startswith(_SIZE) else 0):
                is_asked = _dimensions(self.case, size) is not None and size - 1 not in numbers(self.case)
                edits = [edit for other in {1, size - 1} for edit in size_edits(self.case, size, other) if is_asked]
                programs = self._programs(edits)
            else:
                programs = self._after_smallest(row)
            yield from ((self._draws(program) or [program])[0] for program in programs)

    def _after_smallest(self, row: Row) -> list[Case]:
        """Return the programs after the smallest edits of the row that leave any."""
        return next(filter(None, map(self._programs, reversed(row.rungs))), [])

    def _inputs_with_values(self) -> list[TensorInput]:
        """Return the inputs with other values than the plainest, whose memory no other input shares."""
        if not self.simplifier.wants(DATA[0]):
            return []
        inputs, tensors = self.case.inputs, self.case.tensor_inputs
        bases_of_views = (base.name for base in bases(inputs).values())
        shared = {*views_among(inputs), *bases_of_views, *floats_in_tensors(self.case)}
        return [item for item in tensors if item.name not in shared and item.source != plain(item, None)]

    def _is_steady(self) -> bool:
        """Return whether the minimal Case itself fails in most draws. Otherwise passing draws tell little."""
        draws = self._draws(self.case)
        if draws is None:
            return True  # its values are fixed
        enough = _MIN_SHARE * len(draws)
        return any(count >= enough for count in itertools.accumulate(self.simplifier.shown(draws)))

    def _programs(self, edits: Sequence[Edit]) -> list[Case]:
        """Return the programs after each edit, but for those in which a smaller size makes an input contiguous.

        Where strides are needed, these tell nothing of the size."""
        return [each for each in self.simplifier.programs(edits) if not self._is_without_strides(each)]

    def _is_without_strides(self, case: Case) -> bool:
        return any(item.name in self._strided and item.meta.is_contiguous for item in case.tensor_inputs)

    def _draws(self, case: Case) -> Sequence[Case] | None:
        """Return the Case with each draw of its inputs; None if it has values that cannot be drawn."""
        if not self._values_matter:
            return [case]
        if not can_be_drawn(case):
            return None
        draws = [redrawn(case, number) for number in range(DRAWS)]
        return draws if draws[1] != case else [case]

    def _shows(self, case: Case) -> bool | None:
        """Return whether any draw of the Case fails; None if none does, and fewer than eight pass."""
        draws = self._draws(case)
        if any(self.simplifier.shown(draws or [case])):
            return True
        return False if draws is not None and all(map(self.simplifier.passed, draws)) else None

    def _any_shows(self, family: str, edits: Sequence[Edit]) -> bool | None:
        """Return whether the failure stays after any of these edits of a pass; None if that is not known."""
        programs = self._programs(edits)
        any_shows = self._any_of(programs)
        self._note_passing(family, programs)
        return any_shows

    def _any_of(self, programs: Sequence[Case]) -> bool | None:
        """Return whether any of these programs shows the failure; None if that is not known."""
        answers = [self._shows(program) for program in programs]
        if True in answers:
            return True
        return False if answers and None not in answers else None

    def _is_row_gone(self, family: str, row: Row) -> bool:
        """Return whether each draw passes after the smallest edits of this row; values that cannot be drawn stay.

        False if a row before makes the same change: it is told once.
        """
        programs = self._after_smallest(row)
        if not self._pass(programs):
            return False
        self._note_passing(family, programs)
        is_new = programs not in self._gone
        self._gone.append(programs)
        return is_new

    def _note_passing(self, family: str, programs: Sequence[Case]) -> None:
        """Keep the programs of which each draw passed."""
        passed = self.simplifier.passed
        self.needs.passing += [(family, each) for each in programs if all(map(passed, self._draws(each) or [each]))]

    def _pass(self, programs: Sequence[Case]) -> bool:
        """Return whether each draw of these programs passes: another failure tells nothing of this one.

        The values of a program that cannot be drawn are those of the minimal Case: they stay."""
        draws = [draw for each in programs for draw in self._draws(each) or [each]]
        return bool(draws) and not any(self.simplifier.shown(draws)) and all(map(self.simplifier.passed, draws))

    def _size(self, row: Row) -> str:
        """Say which sizes fail, and in which dimensions, if that holds for other sizes of the other dimensions."""
        size = int(row.name.removeprefix(_SIZE))
        if size == 0:
            return "a size of 0" if self._is_row_gone("sizes", row) else ""
        where = _dimensions(self.case, size)
        kind = self._kind_of_size(size) if where is not None else ""
        passing = (size - 1,) if kind == _AT_LEAST else (size - 1, size + 1)
        return f"{kind.format(size)}{where}" if kind and self._holds_elsewhere(size, passing) else ""

    def _kind_of_size(self, size: int) -> str:
        """Say which sizes fail, from the neighbours of this size and of its multiples."""
        taken = numbers(self.case)  # two sizes that become equal are another change: Dynamo takes them for one

        def shows(other: int) -> bool | None:
            return self._any_shows("sizes", size_edits(self.case, size, other))

        def passes(*others: int) -> bool:
            return all(shows(other) is False for other in others)

        if size - 1 in taken or not passes(*{1, size - 1}):
            return ""
        smaller = self.simplifier.programs(size_edits(self.case, size, 1)[:1])
        if any(self.simplifier.shown([redrawn(each, n) for each in smaller for n in _FEW_DRAWS])):
            return ""  # a smaller size failed to show it for its only draw
        more = next(n for n in itertools.count(size + 1) if n not in taken and n % size)
        free = (n for n in itertools.count(2 * size, size) if not {n - 1, n, n + 1}.intersection(taken))
        twice, thrice = next(free), next(free)
        beyond = twice + 1
        if shows(more):
            return _AT_LEAST if shows(twice) and shows(beyond) else ""
        if not passes(more, beyond):
            return ""
        if shows(twice):
            return "a size that is a multiple of {}" if shows(thrice) and passes(twice - 1) else ""
        return "a size of exactly {}" if passes(twice, thrice) else ""

    def _holds_elsewhere(self, size: int, passing: Sequence[int]) -> bool:
        """Return whether this size fails and the others pass, with each other size of inputs at two larger values.

        A value that no program can have is left out."""
        taken = {*numbers(self.case), size, size - 1, size + 1}
        sizes = sorted({n for item in self.case.tensor_inputs for n in item.meta.shape} - {0, size})
        changes = [
            (other, next(n for n in itertools.count(least) if n not in taken))
            for other in sizes
            for least in (other + 1, 2 * other + 1)
        ]
        # A number 1 among the arguments of an op is no size.
        groups = [
            [together({other: larger, size: new})[int(other == 1) :] for new in (size, *passing)]
            for other, larger in changes
        ]
        for group in groups:
            programs = [self._programs(edits) for edits in group]
            shows = [self._any_of(each) for each in programs]
            if programs[0] and (shows[0] is not True or any(each is not False for each in shows[1:])):
                return False
        return True

    def _dtype(self, dtype: str) -> str:
        """Name the dtypes that fail, if each other dtype of the same kind was tried, and some pass."""
        failing = [dtype]
        others = [other for other in dtypes_like(dtype) if other != dtype]
        for other in others:
            shows = self._any_shows("dtypes", dtype_edits(dtype, other))
            if shows is None:
                return ""
            failing += [other] if shows else []
        return " or ".join(failing) if len(failing) <= len(others) else ""

    def _measure_values(self, item: TensorInput) -> None:
        """Say that the values of an input matter, if eight draws of each other kind pass."""
        if isinstance(item.source, Stored) and item.source.shared:
            return  # draws would lose the shared memory as well
        if isinstance(item.source, Drawn) and item.source.how == "full" and is_integer(item.meta.dtype):
            if self._pass(self.simplifier.programs([with_source({item.name}, Drawn("zeros"))])):
                self.needs.changes.append(f"`{item.name}` with zeros.")
                self.needs.sentences.append("a value other than 0")
            return
        for kind in kinds_of(item):
            programs = self.simplifier.programs([with_source({item.name}, kind)])
            if not programs or not can_be_drawn(programs[0], {item.name}):
                return
            draws = [redrawn(programs[0], number, {item.name}) for number in range(DRAWS)]
            if any(self.simplifier.shown(draws)) or not all(map(self.simplifier.passed, draws)):
                return
        self.needs.changes.append(f"`{item.name}` with other values: several draws of each kind.")
        how = item.source.how if isinstance(item.source, Drawn) else "list"
        sentences = {"list": "these values", "full": "these values", "rand": "values in a range"}
        self.needs.sentences.append(sentences.get(how, ""))


def _dimensions(case: Case, size: int) -> str | None:
    """Return ` in dimension 1 of `x``: the dimensions of inputs of this size; "" if each is, and None if none is."""
    tensors = case.tensor_inputs
    sizes = [(n, f"dimension {dim} of `{item.name}`") for item in tensors for dim, n in enumerate(item.meta.shape)]
    places = [place for n, place in sizes if n == size]
    if len(places) == len(sizes):
        return ""
    return f" in {' and '.join(places)}" if places else None


def _without_sharing(case: Case) -> Case:
    """Give each view memory of its own, with the same values or as random ones."""

    def own(item: TensorInput) -> TensorInput:
        source = item.source
        if not isinstance(source, Stored) or source.base is None:
            return with_own_memory(item)
        return replace(item, source=replace(source, base=None), meta=replace(item.meta, storage=None))

    return with_tensors(case, own)


def nearest(case: Case, variants: Sequence[tuple[str, Case]]) -> Case | None:
    """Return the variant, of those that pass, closest to the minimal Case: their difference is often the diagnosis.

    `variants` are (pass, Case). The most informative come first, then those of about as many elements, then the
    smallest edit.
    """
    return min(variants, key=lambda pair: _distance(case, *pair))[1] if variants else None


def _distance(case: Case, family: str, variant: Case) -> tuple[int, int, int]:
    is_cut = len(numbers(variant)) < len(numbers(case))  # to a size of 1, with which many an op does nothing
    is_informative = family in _INFORMATIVE and not is_cut
    rank = _INFORMATIVE.index(family) if is_informative else len(_INFORMATIVE)
    before, after = ({repr(part) for part in _parts(each)} for each in (case, variant))
    return rank, abs(case.elements - variant.elements), sum(map(len, after - before))


def _parts(case: Case) -> tuple[object, ...]:
    return (*case.graph.nodes, *case.inputs, *case.before, case.graph.modules, case.state, case.backend)


def can_be_drawn(case: Case, among: Collection[str] | None = None) -> bool:
    """Return whether all values, or those of the inputs `among`, are constants or can be drawn again."""
    floats = floats_in_tensors(case)
    items = [item for item in case.tensor_inputs if item.name not in floats]
    return all(_can_be_drawn(item) for item in items if among is None or item.name in among)


def _can_be_drawn(item: TensorInput) -> bool:
    if not isinstance(item.source, Drawn) or item.source.storage is not None:  # a draw would end the sharing
        return False
    if not item.source.is_random:
        return item.source.how != "list"
    return _elements(item) <= _MAX_ELEMENTS and not item.meta.dtype.startswith("complex")


def _elements(item: TensorInput) -> int:
    return item.storage or (item.meta.elements if item.meta.is_contiguous else item.meta.span)


def redrawn(case: Case, number: int, among: Collection[str] | None = None) -> Case:
    """Return the Case with the draw of this number; 0 is the draw that the repro makes itself."""
    if number == 0:
        return case
    places = {item.name: place for place, item in enumerate(case.inputs)}

    def draw(item: TensorInput) -> TensorInput:
        source = item.source
        if not isinstance(source, Drawn) or not source.is_random or item.name not in (among or places):
            return item
        random = Random(number * len(places) + places[item.name])
        values = tuple(_value(random, source) for _ in range(_elements(item)))
        return replace(item, source=Drawn("list", values=values))

    return with_tensors(case, draw)


def _value(random: Random, drawn: Drawn) -> float | int | bool:
    if drawn.how == "bools":
        return random.random() > 0.5
    if drawn.how == "randint":
        return random.randrange(int(drawn.low or 0), int(drawn.high or 1))
    return random.gauss(0.0, 1.0) if drawn.how == "randn" else (drawn.low or 0.0) + drawn.spread * random.random()


def kinds_of(item: TensorInput) -> tuple[Drawn, ...]:
    """Return the other kinds of values for an input that is not drawn from a normal distribution."""
    source, dtype = item.source, item.meta.dtype
    values = source.values if isinstance(source, Drawn) and source.how == "list" else ()
    numbers = [float(value) for value in values if math.isfinite(value)]
    low, high = (int(min(numbers)), int(max(numbers))) if numbers else (0, 1)
    if dtype == "bool":
        return (Drawn("bools"),)
    if is_integer(dtype):
        return (Drawn("randint", low, high + 1),) if low < high else ()
    if isinstance(source, Drawn) and source.how == "rand":
        return (Drawn("randn"),)
    bounded = Drawn("rand", float(low), float(high)) if low < high else Drawn("rand")
    return (Drawn("randn"), bounded, Drawn("randint", 1, 5))
