"""Values of inputs, from the plainest on."""

from dataclasses import replace

import pytest
from case_samples import meta
from case_text import case_of

from minifier.data.case import Drawn, Recorded, Stored, TensorInput, TensorMeta
from minifier.reduction.passes.edits import reshaped, with_tensors
from minifier.reduction.passes.inputs import Facts, bounded, data_rows, plain, random, written

NOTHING = Facts(None, None, None)


def tensor(dtype, *shape):
    return TensorInput("x", meta(*shape, dtype=dtype), Stored("x"))


@pytest.mark.parametrize(
    ("dtype", "shape", "drawn"),
    [
        ("float32", (2,), Drawn("randn")),
        ("complex64", (2,), Drawn("randn")),
        ("int64", (2,), Drawn("zeros")),
        ("bool", (2,), Drawn("ones")),
        ("bool", (), Drawn("list", values=(True,))),
    ],
)
def test_plain_values_are_normal_zero_or_true(dtype, shape, drawn):
    assert plain(tensor(dtype, *shape), None) == drawn


@pytest.mark.parametrize(
    ("dtype", "facts", "drawn"),
    [
        ("float32", Facts(0.0, 1.0, None), Drawn("randn")),
        ("bool", Facts(0, 1, None), Drawn("bools")),
        ("int64", Facts(-2, 5, None), Drawn("randint", -2, 6)),
        ("int64", Facts(None, 5, None), Drawn("zeros")),
        ("int64", Facts(2, None, None), Drawn("zeros")),
        ("int64", None, Drawn("zeros")),
    ],
)
def test_random_integers_lie_between_the_bounds_seen_both_included(dtype, facts, drawn):
    assert random(tensor(dtype, 2), facts) == drawn


@pytest.mark.parametrize(
    ("dtype", "facts", "drawn"),
    [
        ("float32", Facts(0.12345, 9.87654, None), Drawn("rand", 0.123, 9.88)),
        ("float32", Facts(0.0, 0.0, None), Drawn("zeros")),
        ("float32", Facts(1.0, 1.0, None), Drawn("ones")),
        ("float32", Facts(2.5, 2.5, None), Drawn("full", 2.5)),
        ("float32", Facts(1.00001, 1.00002, None), Drawn("randn")),
        ("float32", Facts(1.0, None, None), Drawn("randn")),
        ("float32", None, Drawn("randn")),
        ("int64", Facts(1, 3, None), Drawn("randint", 1, 4)),
    ],
)
def test_bounded_values_lie_between_the_bounds_as_a_person_rounds_them(dtype, facts, drawn):
    assert bounded(tensor(dtype, 2), facts) == drawn


def test_few_values_of_a_contiguous_input_are_written_out():
    few = Facts(1.0, 2.0, (1.0, 2.0))
    assert written(tensor("float32", 2), few) == Drawn("list", values=(1.0, 2.0))
    assert written(tensor("float32", 2), NOTHING) is None and written(tensor("float32", 2), None) is None
    gaps = replace(tensor("float32", 2), meta=TensorMeta((2,), (3,), "float32"))
    assert written(gaps, few) is None


CASE = case_of(
    "x: float32[2]\ni: int64[2]\nc: float32[2]\nd: float32[2]\nj: int64[2]\nn: 5\n"
    "y = torch.f(x, i, c, d, j, n)\nreturn y"
)


def with_sources(case, **sources):
    inputs = tuple(replace(item, source=sources[item.name]) if item.name in sources else item for item in case.inputs)
    return replace(case, inputs=inputs)


def test_the_scripts_values_climb_the_ladder_and_drawn_ones_stay():
    case = with_sources(CASE, x=Stored("x"), i=Recorded("i"), c=Drawn("zeros"), j=Drawn("zeros"))
    facts = {"x": Facts(0.5, 1.5, (0.5, 1.5)), "i": Facts(0, 3, None), "c": Facts(0.5, 1.5, (0.5, 1.5))}
    rows = {row.name: [edit(case) for edit in row.edits] for row in data_rows(case, facts)}
    sources = {
        name: [{i.name: getattr(i, "source", None) for i in c.inputs} for c in made] for name, made in rows.items()
    }
    now = {item.name: getattr(item, "source", None) for item in case.inputs}
    assert sources == {
        "values of x": [
            {**now, "x": drawn} for drawn in (Drawn("randn"), Drawn("rand", 0.5, 1.5), Drawn("list", values=(0.5, 1.5)))
        ],
        "values of i": [{**now, "i": drawn} for drawn in (Drawn("zeros"), Drawn("full", 3), Drawn("randint", 0, 4))],
        "values of c": [{**now, "c": Drawn("randn")}],
    }


def test_zeros_without_memory_are_tried_as_plain_values_and_as_zeros():
    case = with_sources(case_of("x: float32[2]\ny = torch.sin(x)\nreturn y"), x=Drawn("no memory"))
    (row,) = data_rows(case, {})
    assert [edit(case).inputs[0].source for edit in row.edits] == [Drawn("randn"), Drawn("zeros")]


def test_a_condition_at_a_cut_is_true():
    case = case_of("m: bool[2]\ny = torch.f(m)\nreturn y")
    (row,) = data_rows(with_sources(case, m=Drawn("zeros")), {})
    assert [edit(case).inputs[0].source for edit in row.edits] == [Drawn("ones")]


def views_of(*windows, shape=(2, 3)):
    """Two inputs of one storage, each given as (stride, offset)."""
    case = case_of("x: float32[2, 3]\ny: float32[2, 3]\nz = torch.f(x, y)\nreturn z")
    inputs = tuple(
        TensorInput(name, TensorMeta(shape, stride, "float32", storage=0, offset=offset), Stored("s", shared=True))
        for name, (stride, offset) in zip("xy", windows, strict=True)
    )
    return replace(case, inputs=inputs)


def layouts(case):
    return [(item.meta.stride, item.meta.offset) for item in case.inputs]


@pytest.mark.parametrize(
    ("windows", "apart", "without_gaps"),
    [
        ([((3, 1), 30), ((3, 1), 12)], [((3, 1), 0), ((3, 1), 6)], [((3, 1), 6), ((3, 1), 0)]),
        ([((3, 1), 6), ((3, 1), 6)], [((3, 1), 0), ((3, 1), 6)], [((3, 1), 0), ((3, 1), 0)]),
        ([((3, 1), 6), ((3, 1), 9)], [((3, 1), 0), ((3, 1), 6)], [((3, 1), 0), ((3, 1), 1)]),
        ([((1, 2), 0), ((3, 1), 8)], [((3, 1), 0), ((3, 1), 6)], [((1, 2), 0), ((3, 1), 6)]),
    ],
)
def test_a_shared_storage_is_generated_with_its_views_apart_as_they_follow_and_in_place(windows, apart, without_gaps):
    case = views_of(*windows)
    shared = next(row for row in data_rows(case, {}) if row.name == "values of x, y")
    made = [edit(case) for edit in shared.edits]
    assert [layouts(each) for each in made] == [apart, without_gaps, windows]
    assert {item.source for each in made for item in each.inputs} == {Drawn("randn", storage="s")}


def test_views_of_a_generated_storage_stay_views_of_it_at_other_sizes():
    case = views_of(((3, 1), 0), ((3, 1), 9))
    (generated, *_) = next(row for row in data_rows(case, {}) if row.name == "values of x, y").edits
    smaller = with_tensors(generated(case), lambda item: reshaped(item, (2, 1)))
    assert layouts(smaller) == [((1, 1), 0), ((1, 1), 2)]
    assert [item.meta.storage for item in smaller.inputs] == [0, 0]


def test_a_view_of_a_generated_storage_may_get_memory_of_its_own():
    case = views_of(((3, 1), 0), ((3, 1), 9))
    (generated, *_) = next(row for row in data_rows(case, {}) if row.name == "values of x, y").edits
    rows = {row.name: row for row in data_rows(generated(case), {})}
    assert list(rows) == ["memory of x", "memory of y"]
    (own,) = (edit(generated(case)) for edit in rows["memory of y"].edits)
    assert own.inputs[1].source == Drawn("randn") and own.inputs[1].meta.offset == 0


@pytest.mark.parametrize(
    "change", [{"parameter": True}, {"inference": True}, {"requires_grad": True}, {"dtype": "int64"}]
)
def test_a_storage_with_other_views_than_ordinary_tensors_of_one_dtype_stays(change):
    case = views_of(((3, 1), 0), ((3, 1), 9))
    of_meta = {name: value for name, value in change.items() if name in ("requires_grad", "dtype")}
    rest = {name: value for name, value in change.items() if name not in of_meta}
    first = replace(case.inputs[0], meta=replace(case.inputs[0].meta, **of_meta), **rest)
    assert "values of x, y" not in [row.name for row in data_rows(replace(case, inputs=(first, case.inputs[1])), {})]
