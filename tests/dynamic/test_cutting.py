"""A cut-out part of a graph with symbolic sizes, as Dynamo would hand it over; and without any."""

from dataclasses import replace

import pytest
from case_samples import call, graph, output, placeholder, small_case

from minifier.data.case import Case, Drawn, Ref, ScalarInput, Symbolic, TensorInput, TensorMeta
from minifier.data.case.ops import atoms, with_ops
from minifier.data.case.symbolic_sizes import as_dynamo_would, is_symbolic
from minifier.data.case.values import Scalar, contiguous_stride


def sized(*sizes):
    """A tensor's value: `(4, "s0")` for a symbolic size."""
    shape = tuple(size[0] if isinstance(size, tuple) else size for size in sizes)
    symbols = tuple(size[1] if isinstance(size, tuple) else None for size in sizes)
    return TensorMeta(shape, contiguous_stride(shape), "float32", symbols=symbols if any(symbols) else ())


A, TWICE, B = (4, "s0"), (8, "2*s0"), (3, "s1")


def case(origin=Symbolic.AUTOMATIC, *, width=3) -> Case:
    """s0, x(s0, 3) -> z = cat(x, x) -> n = 2*s0 -> tanh(z) -> view(tanh, n, 3) -> mul by s0."""
    x, z = sized(A, width), sized(TWICE, width)
    nodes = (
        placeholder("s0", Scalar(4, "s0")),
        placeholder("x", x),
        call("z", "torch.cat", [Ref("x"), Ref("x")], value=z),
        call("n", "operator.mul", 2, Ref("s0"), value=Scalar(8, "2*s0")),
        call("tanh", "torch.tanh", Ref("z"), value=z),
        call("view", "torch.reshape", Ref("tanh"), (Ref("n"), 3), value=z),
        call("mul", "operator.mul", Ref("view"), Ref("s0"), value=z),
        output("mul"),
    )
    inputs = (ScalarInput("s0", 4, "s0"), TensorInput("x", x, Drawn("zeros")))
    return replace(small_case(), graph=graph(*nodes), inputs=inputs, symbolic=origin)


def shape_of(part):
    return [
        (item.value, item.symbol) if isinstance(item, ScalarInput) else (item.meta.shape, item.meta.symbols)
        for item in part.inputs
    ]


def agrees(part):
    assert [n.name for n in part.graph.placeholders] == [i.name for i in part.inputs]
    assert len({n.name for n in part.graph.nodes}) == len(part.graph.nodes)
    defined = set()
    for node in part.graph.nodes:
        assert set(node.refs()) <= defined
        defined.add(node.name)


@pytest.mark.parametrize("origin", list(Symbolic))
@pytest.mark.parametrize("kept", [(), ("z",), ("n",), ("tanh",), ("view",), ("mul",), ("n", "view"), ("z", "mul")])
def test_every_part_is_sound_and_cutting_twice_is_cutting_once(origin, kept):
    part = with_ops(case(origin), kept)
    agrees(part)
    assert as_dynamo_would(part) == part
    assert with_ops(part, kept) == part


def test_sizes_that_nobody_has_seen_cannot_be_cut():
    def nonzero(seen):
        found = TensorMeta((seen, 2), (2, 1), "int64", symbols=("u0", None))
        return graph(
            placeholder("x"), call("n", "torch.nonzero", Ref("x"), value=found), call("a", "torch.abs", Ref("n"),
            value=found), call("b", "torch.sum", Ref("a"), value=sized()), output("b"),
        )  # fmt: skip

    assert atoms(nonzero(0)) == (("n", "a", "b"),) and atoms(nonzero(5)) == (("n",), ("a",), ("b",))
    whole = replace(small_case(), graph=nonzero(5), inputs=(small_case().inputs[0],))
    assert is_symbolic(whole)
    part = with_ops(whole, ["b"])
    assert [item.meta.shape for item in part.inputs] == [(5, 2)] and not is_symbolic(part)
