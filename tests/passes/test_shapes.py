"""Sizes and dimensions of inputs, exactly."""

from dataclasses import replace

import pytest
import torch
from case_text import case_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_rows import is_shown, made, names, pass_named

from minifier.data.case import Call, Drawn, Recorded, Stored, TensorInput, TensorMeta
from minifier.data.case.calls import call_of
from minifier.data.case.inputs import Adapted
from minifier.data.case.values import contiguous_stride
from minifier.reduction.passes.edits import converted, is_fixed, reshaped, restride, without_dim
from minifier.reduction.passes.sizes import all_sizes, numbers, size_edits, smaller, to_number, without_ones

MATMUL = """
    x: float32[4, 6]
    w: float32[6, 5]
    y: float32[4, 5] = torch.matmul(x, w)
    z: float32[20] = torch.reshape(y, (20,))
    return z,
"""


def tensor(meta, source):
    return TensorInput("x", meta, source)


PLAIN, GAPS = TensorMeta((2, 3), (3, 1), "float32"), TensorMeta((2, 3), (6, 2), "float32")


@pytest.mark.parametrize(
    ("meta", "source", "fixed"),
    [
        (PLAIN, Stored("x"), False),
        (PLAIN, Stored("x", shared=True), True),
        (GAPS, Stored("x"), True),
        (PLAIN, Drawn("list", values=(1,)), False),
        (GAPS, Drawn("list", values=(1,)), True),
        (GAPS, Drawn("randn"), False),
        (GAPS, Recorded("x"), False),
    ],
)
def test_values_that_share_memory_or_are_kept_with_gaps_are_fixed(meta, source, fixed):
    item = tensor(meta, source)
    assert is_fixed(item) is fixed
    assert (reshaped(item, (1, 3)) == item) is fixed and (without_dim(item, 0) == item) is fixed


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((2, 3, 2), tuple(range(12))),
        ((1, 3, 2), (0, 1, 2, 3, 4, 5)),
        ((2, 1, 2), (0, 1, 6, 7)),
        ((2, 3, 1), (0, 2, 4, 6, 8, 10)),
        ((2, 2, 1), (0, 2, 6, 8)),
    ],
)
def test_values_that_are_written_out_are_the_first_of_each_dimension(shape, values):
    item = tensor(TensorMeta((2, 3, 2), (6, 2, 1), "int64"), Drawn("list", values=tuple(range(12))))
    assert reshaped(item, shape).source == Drawn("list", values=values)
    assert without_dim(item, 0).source.values == (0, 1, 2, 3, 4, 5)
    assert without_dim(without_dim(without_dim(item, 0), 0), 0).source.values == (0,)


def test_numbers_are_those_of_free_inputs_and_results_the_largest_first():
    case = case_of(MATMUL)
    assert numbers(case) == [20, 6, 5, 4]
    fixed = replace(case, inputs=tuple(replace(item, source=Stored("s", shared=True)) for item in case.inputs))
    assert numbers(fixed) == [20, 5, 4]
    assert numbers(case_of("x: float32[1, 2]\ny = torch.sin(x)\nreturn y,")) == [2]


def test_no_number_can_change_where_a_kernel_is_launched():
    launch = MATMUL.replace("torch.matmul", "torch.ops.higher_order.triton_kernel_wrapper_mutation")
    assert numbers(case_of(launch)) == []
    symbolic = MATMUL.replace("    x: float32[4", '    s: 4 @ "s0"\n    x: float32[4 @ "s0"')
    assert numbers(case_of(symbolic)) == [20, 6, 5, 4]


def test_a_number_changes_with_or_without_arguments_and_with_or_without_multiples():
    text = """
        x: float32[4, 8]
        y: float32[8, 4] = torch.reshape(x, (8, -4), True)
        z: float32[4] = torch.select(y, 0, 4)
        return z,
    """
    shapes = []
    for edit in to_number(4, 2):
        case = edit(case_of(text))
        shapes.append((case.inputs[0].meta.shape, case.graph.node("y").args[1:], case.graph.node("z").args[1:]))
    assert shapes == [
        ((2, 8), ((8, -4), True), (0, 2)),
        ((2, 8), ((8, -4), True), (0, 4)),
        ((2, 4), ((4, -4), True), (0, 2)),
        ((2, 4), ((8, -4), True), (0, 4)),
    ]


def test_a_number_changes_in_earlier_calls_of_other_graphs_first():
    earlier = case_of("x: float32[4, 8]\ny: float32[4, 8] = torch.sin(x)\nreturn y,")
    case = case_of("x: float32[4, 4]\ny: float32[4, 4] = torch.cos(x)\nreturn y,")
    case = replace(case, before=(call_of(earlier), Call(times=2)))
    first, *_, last = (edit(case) for edit in size_edits(case, 4, 2))
    assert first.inputs[0].meta.shape == last.inputs[0].meta.shape == (2, 2)
    assert [changed.before[0].inputs[0].meta.shape for changed in (first, last)] == [(2, 8), (4, 8)]
    assert first.before[1] == case.before[1]
    assert len(size_edits(earlier, 4, 2)) == 4, "there is no other graph"


def test_single_dimensions_are_those_above_one_whose_size_occurs_again():
    case = case_of("x: float32[1, 2, 3]\ny: float32[1, 2]\nn: 5\nw: float32[2]\nz = torch.f(x, y, n, w)\nreturn z,")
    fixed = replace(case.inputs[3], source=Stored("w", shared=True))
    case = replace(case, inputs=(*case.inputs[:3], fixed))
    assert [name for name in names("sizes", case) if "dimension" in name] == ["dimension 1 of x", "dimension 1 of y"]


def test_rows_of_sizes_begin_with_the_largest_and_end_with_single_dimensions():
    found = made("sizes", case_of(MATMUL))
    sizes = [20, 6, 5, 4]
    one_by_one = [*(f"size {n}" for n in sizes), "dimension 1 of x", "dimension 0 of w"]
    assert list(found) == ["all sizes", *one_by_one, *(f"no size but {n}" for n in sizes)]
    assert found["no size but 5"][0].inputs[0].meta.shape == (1, 1) == found["no size but 5"][-1].inputs[0].meta.shape
    assert [case.inputs[0].meta.shape for case in found["size 4"]] == [(n, 6) for n in (1, 2, 3) for _ in range(4)]
    assert is_shown(found["dimension 1 of x"][0], MATMUL.replace("[4, 6]", "[4, 1]"))
    assert is_shown(found["dimension 0 of w"][0], MATMUL.replace("[6, 5]", "[1, 5]"))
    rows = pass_named("sizes").rows(case_of(MATMUL))
    assert {len(rung) for row in rows if row.name.startswith("size ") for rung in row.rungs} == {4}


SYMBOLIC = """
    s: 4 @ "s0"
    x: float32[4 @ "s0", 3]
    y: float32[4 @ "s0", 3] = torch.sin(x)
    return y,
"""


def test_symbolic_sizes_stay_above_one_and_apart():
    found = made("sizes", case_of(SYMBOLIC))
    assert list(found) == ["all sizes", "size 4", "size 3"]
    assert is_shown(found["size 4"][0], SYMBOLIC.replace("4 @", "2 @"))
    assert len(found["size 4"]) == 4 and len(found["size 3"]) == 4
    assert [case.inputs[1].meta.shape for case in found["size 3"]] == [(4, 2)] * 4


def test_all_sizes_at_once_are_one_then_two_then_different():
    text = "x: float32[6, 4]\ny: float32[4, 6] = torch.reshape(x, (4, 6), 7)\nreturn y,"
    cases = [edit(case_of(text)) for edit in all_sizes(case_of(text))]
    assert {case.graph.node("y").args[2] for case in cases} == {7}, "a number of no shape"
    assert [(case.inputs[0].meta.shape, case.graph.node("y").args[1]) for case in cases] == [
        ((1, 1), (1, 1)),
        ((1, 1), (4, 6)),
        ((2, 2), (2, 2)),
        ((2, 2), (4, 6)),
        ((3, 2), (2, 3)),
        ((3, 2), (4, 6)),
    ]
    assert list(all_sizes(case_of("x: float32[1]\ny = torch.sin(x)\nreturn y,"))) == []


def test_static_is_offered_where_a_size_is_symbolic():
    assert names("static", case_of(SYMBOLIC)) == ["dynamic shapes"] and names("static", case_of(MATMUL)) == []


DIMS = """
    x: float32[1, 2, 1]
    y: float32[1, 2, 3]
    w: float32[1, 3]
    v: float32[1]
    z = torch.f(x, y, w, v)
    return z,
"""


def test_the_first_dimension_of_all_inputs_goes_then_each_alone():
    found = {
        name: [item.meta.shape for item in case.inputs] for name, (case, *_) in made("dims", case_of(DIMS)).items()
    }
    x, y, w, v = (1, 2, 1), (1, 2, 3), (1, 3), (1,)
    assert found == {
        "first of 3 dimensions": [x[1:], y[1:], w, v],
        "first of 2 dimensions": [x[1:], y[1:], w[1:], v],
        "dimension 0 of x": [x[1:], y, w, v],
        "dimension 2 of x": [x[:2], y, w, v],
        "dimension 0 of y": [x, y[1:], w, v],
        "dimension 0 of w": [x, y, w[1:], v],
    }


def test_numbers_in_arguments_follow_a_dimension_or_stay():
    softmax = "x: float32[1, 1, 2]\ny = torch.softmax(x, 2)\nreturn y,"
    stay, follow = made("dims", case_of(softmax))["dimension 0 of x"]
    assert [case.graph.node("y").args[1] for case in (stay, follow)] == [2, 1]
    assert stay.inputs == follow.inputs
    view = "x: float32[2, 2]\ny = torch.reshape(x, (2, -1))\nreturn y,"
    stay, follow = made("sizes", case_of(view))["dimension 0 of x"]
    assert [case.graph.node("y").args[1] for case in (stay, follow)] == [(2, -1), (1, -1)]
    assert [case.inputs[0].meta.shape for case in (stay, follow)] == [(1, 2), (1, 2)]


def test_dimensions_of_fixed_inputs_and_of_flex_attention_stay():
    case = case_of(DIMS)
    fixed = replace(case, inputs=tuple(replace(item, source=Stored("s", shared=True)) for item in case.inputs))
    assert names("dims", fixed) == [] and without_ones(fixed) == fixed
    flex = case_of(DIMS.replace("    return", "    f = torch.ops.higher_order.flex_attention(z)\n    return"))
    assert names("dims", flex) == [] and without_ones(flex) is flex


def test_all_dimensions_of_one_go_but_the_last_that_is_left():
    case = case_of(
        "x: float32[1, 2, 1]\ny: float32[1, 1]\nz: float32[1]\nd: float32[()]\nr = torch.f(x, y, z, d)\nreturn r,"
    )
    assert [item.meta.shape for item in without_ones(case).inputs] == [(2,), (1,), (1,), ()]


# Other sizes and dtypes of inputs, as plain data.


def an_input(shape, stride=None, source=None, dtype="float32"):
    stride = contiguous_stride(shape) if stride is None else stride
    return TensorInput("x", TensorMeta(shape, stride, dtype), source or Drawn("randn"))


@settings(max_examples=50)
@given(st.integers(2, 100_000), st.integers(1, 100_000))
def test_the_smallest_size_is_found_in_steps_of_the_logarithm(start, least):
    least, number, probes, asked = min(least, start), start, 0, set()
    while number > 1:
        for candidate in smaller(number):
            if candidate not in asked:
                probes += 1
                asked.add(candidate)
            if candidate >= least:
                number = candidate
                break
        else:
            break
    assert number == least
    assert probes <= 2.5 * start.bit_length() + 5


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False), st.integers(1, 3))
def test_strides_for_another_shape_keep_the_order_of_the_dimensions(shape, random, gap):
    order = list(range(len(shape)))
    random.shuffle(order)
    permuted = torch.empty([shape[i] for i in order] + [gap])[..., 0].permute(
        [order.index(i) for i in range(len(shape))]
    )
    meta = TensorMeta(tuple(permuted.shape), permuted.stride(), "float32")
    assert restride(meta, meta.shape) == meta.stride or meta.is_contiguous or 1 in shape
    larger = restride(meta, tuple(size + 1 for size in shape))
    assert len({*larger}) == len(shape) and min(larger) > 0
    if all(size > 1 for size in shape):
        assert sorted(order, key=larger.__getitem__) == sorted(order, key=meta.stride.__getitem__)


@pytest.mark.parametrize("source", [Stored("x"), Recorded("x")])
def test_the_scripts_own_values_are_taken_from_the_corner(source):
    item = reshaped(an_input((2, 3), source=source), (2, 1))
    assert item.source == Adapted(source, an_input((2, 3)).meta) and item.meta.stride == (1, 1)
    again = converted(without_dim(reshaped(item, (1, 1)), 0), "float64")
    assert again.source == item.source and again.meta.shape == (1,) and again.meta.dtype == "float64"
