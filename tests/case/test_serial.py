"""Plain data to JSON and back."""

import json
import math
from dataclasses import replace

import pytest
from case_samples import call, graph, meta, output, placeholder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_subset import graphs

from minifier.data import fields
from minifier.data.case import (
    BackendReference,
    BackendSource,
    Call,
    Case,
    Drawn,
    Input,
    Ref,
    State,
    Stored,
    TensorInput,
    TensorMeta,
)
from minifier.data.case.literals import index, literal
from minifier.data.case.ops import with_ops
from minifier.data.case.serial import pack, pack_arg, unpack, unpack_arg
from minifier.data.case.store import pickled, unpickled
from minifier.data.case.values import Constant, Imported, Size
from minifier.data.failure import Failure, Fingerprint, Frame, Kind, Stage
from minifier.data.fields import Defect
from minifier.errors import CannotSave

NAMES = st.just("x")
NUMBERS = st.one_of(st.integers(), st.floats(), st.complex_numbers(), st.booleans())
HASHABLE = st.one_of(
    st.none(), st.integers(), st.booleans(), st.text(max_size=5), st.tuples(st.integers(), st.text(max_size=2))
)
CONSTANTS = st.sampled_from(
    [
        Constant("dtype", "float32"),
        Constant("dtype", "float8_e4m3fn"),
        Constant("device", "cpu"),
        Constant("device", "cuda:1"),
        Constant("layout", "strided"),
        Constant("memory_format", "channels_last"),
        Imported("torch.nn.functional.gelu"),
        Imported("acme:Mode.FAST"),
    ]
)
ENDS = st.one_of(st.none(), st.integers(-9, 9), NAMES.map(Ref))
LEAVES = st.one_of(
    st.none(), NUMBERS, st.text(max_size=8), st.just(...), CONSTANTS, NAMES.map(Ref),
    st.builds(slice, ENDS, ENDS, ENDS), st.builds(range, st.integers(0, 9), st.integers(0, 9)),
    st.lists(ENDS, max_size=3).map(lambda items: Size(tuple(items))), st.frozensets(HASHABLE, max_size=3).map(set),
)  # fmt: skip
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
    ),
    max_leaves=8,
)


def shown(value):
    """Equality that tells 1 from True, 0.0 from -0.0 and takes nan for itself."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, set):
        return "set", sorted(map(repr, map(shown, value)))
    if isinstance(value, dict):
        return "dict", [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, slice):
        return "slice", shown((value.start, value.stop, value.step))
    if isinstance(value, Size):
        return "Size", shown(value.items)
    return type(value).__name__, repr(value)


@given(ARGUMENTS)
def test_any_argument_comes_back_through_json(value):
    written = json.dumps(pack_arg(value), allow_nan=False)
    assert shown(unpack_arg(json.loads(written))) == shown(value)


@pytest.mark.parametrize("value", [b"bytes", object(), lambda: None, {"a": object()}, [slice(object(), 1)]])
def test_what_has_no_readable_form_is_named(value):
    with pytest.raises(CannotSave, match=r"a value of type builtins\.\w+"):
        pack_arg(value)


X = {
    "is": "TensorInput",
    "name": "x",
    "meta": {"shape": [2], "stride": [1], "dtype": "int8"},
    "source": {"is": "Drawn", "how": "ones"},
}
LAST = (Frame("acme", "lower"), Frame("acme", "f"))
FORMS = Fingerprint(Stage.RUN, Kind.EXCEPTION, forms=(Fingerprint(Stage.COMPILE, Kind.EXCEPTION, (), *LAST),))


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (float, 3, 3),
        (float, -math.inf, {"float": "-inf"}),
        (int | float | None, None, None),
        (tuple[Stage, ...], (Stage.RUN,), ["run"]),
        (TensorMeta, TensorMeta((2,), (1,), "int8"), {"is": "TensorMeta", **X["meta"]}),
        (Drawn, Drawn("full", math.nan), {"is": "Drawn", "how": "full", "low": {"float": "nan"}}),
    ],
)
def test_values_are_written_without_their_defaults(kind, value, written):
    assert pack(value) == written and shown(unpack(kind, written)) == shown(value)


def test_dataclasses_in_themselves_and_in_unions_come_back():
    assert unpack(Fingerprint, json.loads(json.dumps(pack(FORMS)))) == FORMS
    item = TensorInput("x", TensorMeta((2,), (1,), "int8"), Stored("k", offset=1), leaf=False)
    assert unpack(tuple[Input, ...], json.loads(json.dumps(pack((item,))))) == (item,)


def changed(value, place, content):
    """The JSON value with `content` at this place."""
    if not place:
        return content
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = changed(value[place[0]] if len(place) > 1 else None, place[1:], content)
    return copy


@pytest.mark.parametrize(
    ("place", "content", "where"),
    [
        ((), [], ""),
        ((), {**X, "is": "Node"}, ""),
        ((), {"is": "TensorInput", "name": "x"}, ""),  # meta is missing
        (("colour",), 1, ""),
        (("name",), 3, ".name"),
        (("name",), "class", ".name"),
        (("leaf",), 1, ".leaf"),
        (("storage",), True, ".storage"),
        (("storage",), "3", ".storage"),
        (("storage",), 2.0, ".storage"),
        (("meta",), None, ".meta"),
        (("meta", "shape"), {"0": 2}, ".meta.shape"),
        (("meta", "shape"), "2", ".meta.shape"),
        (("meta", "shape"), [2, 2**1001], ".meta.shape[1]"),
        (("meta", "stride"), ["1"] * 10_000, ".meta.stride[0]"),
        (("meta", "stride"), [3, 1], ".meta.stride"),
        (("source",), {"how": "ones"}, ".source"),
        (("source", "how"), ["ones"], ".source.how"),
        (("source", "low"), {"float": "much"}, ".source.low"),
        (("source", "values"), [1, None], ".source.values[1]"),
    ],
)
def test_a_defect_has_its_place(place, content, where):
    with pytest.raises(ValueError) as caught:
        unpack(Input, changed(X, place, content))
    error = caught.value
    assert (error.place if isinstance(error, Defect) else "") == where and 0 < len(str(error)) < 200


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1, "b": 2},
        {"no such": 1},
        {"range": [0, 1, 0]},
        {"complex": [1]},
        {"slice": [1]},
        {"set": [[]]},
        10**400,
    ],
)
def test_an_argument_of_no_known_form_is_refused_with_its_place(value):
    with pytest.raises(Defect) as caught:
        unpack_arg([1, {"tuple": [value]}])
    assert caught.value.place.startswith("[1][0]")


NOT_ZERO = st.floats().filter(bool)  # a zero's sign is lost in what Python itself writes for a complex number
LITERALS = st.recursive(
    st.one_of(
        st.none(),
        st.integers(),
        st.booleans(),
        st.floats(),
        st.builds(complex, NOT_ZERO, NOT_ZERO),
        st.text(max_size=8),
        st.just(...),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.frozensets(HASHABLE, max_size=3).map(set),
    ),
    max_leaves=6,
)


@given(LITERALS)
@example(complex(math.inf, -math.nan))
@example([complex(-1.5, -math.inf)])
@example(-0.0)
def test_a_literal_is_python_for_the_value(value):
    assert shown(eval(literal(value), {})) == shown(value)


class Subscript:
    def __getitem__(self, item):
        return item


ENDS_OF_NUMBERS = st.none() | st.integers(-9, 9)
PARTS = st.one_of(
    st.integers(-9, 9), st.none(), st.just(...), st.lists(st.integers(0, 3), max_size=2), st.booleans(),
    st.builds(slice, ENDS_OF_NUMBERS, ENDS_OF_NUMBERS, ENDS_OF_NUMBERS),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
)  # fmt: skip


@given(st.one_of(PARTS, st.lists(PARTS, max_size=3).map(tuple)))
def test_what_stands_between_brackets_means_the_same_index(value):
    assert shown(eval(f"subscript[{index(value)}]", {"subscript": Subscript()})) == shown(value)


# A candidate sent to another process.

FAILURE = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION), "ValueError", "no")


def case_of(whole) -> Case:
    inputs = tuple(TensorInput(node.name, meta(2, 3), Drawn("randn")) for node in whole.placeholders)
    return Case(whole, inputs, BackendReference("mine", BackendSource.REGISTERED, '"mine"'), FAILURE)


def sent(base: Case, case: Case) -> Case:
    return unpickled(json.loads(json.dumps(pickled(case))), base)


@settings(max_examples=60)
@given(graphs(), st.data())
def test_what_comes_back_is_the_candidate(whole, data):
    base = case_of(whole)
    names = data.draw(st.sets(st.sampled_from([node.name for node in whole.ops])))
    candidate = with_ops(base, names)
    assert sent(base, candidate) == candidate
    other = replace(
        candidate,
        inputs=tuple(replace(item, meta=meta(1, 3), source=Drawn("rand", 0.0, 2.0)) for item in candidate.inputs),
        backend=replace(base.backend, options={"level": (1, None)}),
        state=State(grad=False, config=(("torch._dynamo.config", "verbose", True),)),
        before=(Call(times=2),),
    )
    assert sent(base, other) == other and sent(other, base) == base


def test_what_stays_is_the_same_object():
    nodes = [placeholder("x")]
    for i in range(100):
        nodes.append(call(f"v{i}", "torch.sin", Ref(nodes[-1].name)))
    base = case_of(graph(*nodes, output("v99")))
    back = sent(base, with_ops(base, [f"v{i}" for i in range(40, 100)]))
    assert all(node is base.graph.node(node.name) for node in back.graph.ops) and len(back.graph.ops) == 60


@pytest.mark.parametrize("text", [" 1", "1\n", "\n 1", "1  # one", "f(1),", "a = 1"])
def test_an_expression_can_be_read_again_as_it_stands(text):
    with pytest.raises(ValueError):
        fields.expression(text)


@pytest.mark.parametrize("name", ["a\ud800", "é" * 200, "a/b", "..", ""])
def test_a_file_name_is_one_that_a_folder_can_have(name):
    with pytest.raises(ValueError):
        unpack(fields.FileName, name)
