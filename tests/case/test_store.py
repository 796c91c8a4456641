"""A Case as a folder: it comes back whole, and whatever is wrong with it is a UsageError that names the file."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from case_samples import call, graph, meta, output, placeholder, small_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import numpy
from test_serial import ARGUMENTS, shown

from minifier.data.case import (
    BackendReference,
    BackendSource,
    Call,
    Case,
    Drawn,
    Recorded,
    Ref,
    State,
    Stored,
    TensorInput,
)
from minifier.data.case.files import check_folder, read_text
from minifier.data.case.serial import MAX_DEPTH
from minifier.data.case.store import graph_to_text, load, save
from minifier.errors import CannotSave, UsageError


@pytest.fixture
def folder(tmp_path):
    save(small_case(), tmp_path / "case")
    return tmp_path / "case"


def put(path, place, value):
    """Replaces the value at this place of a JSON file."""
    data = holder = json.loads(path.read_text())
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    path.write_text(json.dumps(data))


VARIABLES = (("acme.fuse", "1"), ("if", "a-b"))  # a script may set any name that has no equals sign
PLAIN = st.integers(-9, 9) | st.booleans() | st.floats(allow_nan=False)
DRAWN = st.one_of(
    st.builds(Drawn, how=st.sampled_from(["randn", "zeros", "ones"])),
    st.builds(Drawn, how=st.just("randint"), low=st.integers(-9, 0), high=st.integers(1, 9)),
    st.lists(PLAIN, min_size=6, max_size=6).map(lambda values: Drawn("list", values=tuple(values))),
)


@st.composite
def cases(draw):
    """A Case of an op with any arguments, in any state, of a backend with any options."""
    arguments = draw(st.lists(ARGUMENTS, max_size=3))
    kwargs = draw(st.dictionaries(st.sampled_from(["dim", "out"]), ARGUMENTS, max_size=2))
    x = placeholder("x", meta(2, 3, dtype=draw(st.sampled_from(["float32", "bfloat16", "int64", "complex64"]))))
    op = call("a", "torch.op", *arguments, value=draw(st.sampled_from([meta(), meta(0, 3), meta(2)])), **kwargs)
    options = st.none() | st.dictionaries(st.sampled_from(["level", "mode"]), PLAIN | st.just((1, None)), max_size=2)
    return replace(
        small_case(),
        graph=graph(x, op, output("a")),
        inputs=(TensorInput("x", x.value, draw(DRAWN), leaf=draw(st.booleans()), parameter=draw(st.booleans())),),
        backend=BackendReference("mine", BackendSource.REGISTERED, '"mine"', options=draw(options)),
        state=State(
            draw(st.booleans()), config=(("torch._dynamo.config", "verbose", draw(PLAIN)),), environment=VARIABLES
        ),
        before=(Call(times=draw(st.integers(1, 9))),),
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_any_case_comes_back_as_it_was(tmp_path, case: Case):
    save(case, tmp_path)
    again = load(tmp_path)
    before, after = case.graph.node("a"), again.graph.node("a")
    assert shown(after.args) == shown(before.args) and shown(after.kwargs) == shown(before.kwargs)
    assert replace(again, graph=case.graph) == case and again.graph.nodes[0] == case.graph.nodes[0]


def test_a_case_that_an_earlier_release_wrote_is_loaded():
    case = load(Path(__file__).parent / "stored")
    assert [node.short_target for node in case.graph.ops] == ["layer_norm", "wrap", "getitem", "to"]
    assert [item.name for item in case.inputs] == ["s0", "x", "w"] and case.calls == 2
    assert case.backend.expression == '"oddlib_tanh"' and case.failure.message == "no lowering for tanh"


@pytest.mark.parametrize("version", [1, 99])
def test_a_case_of_another_format_is_refused_with_both_formats(folder, version):
    path = folder / "case.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    with pytest.raises(UsageError, match=rf"case.json .*\b{version}\b.*\b4\b"):
        load(folder)


def test_what_cannot_be_written_is_named_with_its_op():
    bad = graph(placeholder("x"), call("add", "operator.add", Ref("x"), object()), output("add"))
    with pytest.raises(CannotSave, match="add"):
        graph_to_text(bad)


@pytest.mark.parametrize("name", ["case.json", "graph.json"])
@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"version": 99}', b"\xff\xfe\x00", b"[" * 100_000])
def test_a_damaged_file_is_named(folder, name, content):
    path = folder / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=name):
        load(folder)


META = ("inputs", 0, "meta")
DEFECTS = [
    ((*META, "shape"), [2, -3]),
    ((*META, "shape"), [2**40, 2**40]),
    ((*META, "stride"), [3, 1, 1]),
    ((*META, "dtype"), "load"),
    ((*META, "symbols"), ["__import__('os').x", None]),
    (("inputs", 0, "name"), "class"),
    (("inputs", 0, "source", "how"), "eval"),
    (("inputs", 0, "storage"), 2),
    (("backend", "imports"), ["import os; os.abort()"]),
    (("backend", "expression"), "a), f(b"),
    (("backend", "expression"), "-" * 90_000 + "1"),
    (("definitions",), "def f(:"),
    (("before",), [{"times": 10**11}]),
    (("script", "name"), "../.."),
    (("script", "ops"), ["x"]),
    (("state", "config"), {"tuple": [{"tuple": ["os;", "x", 1]}]}),
    (("state", "environment"), [["A=B", "1"]]),
    (("failure", "message"), "\ud800"),
    (("tensors",), "../other.safetensors"),
    (("colour",), "green"),
]
GRAPH_DEFECTS = [
    (("nodes", 2, "target"), "tanh"),
    (("nodes", 2, "target"), "os;x:y"),
    (("nodes", 2, "op"), "call"),
    (("nodes", 2, "args"), {"tuple": [{"node": "nowhere"}]}),
    (("nodes", 2, "args"), {"tuple": [{"node": "tanh"}]}),
    (("nodes", 2, "args"), {"tuple": [10**400]}),
    (("nodes", 2, "kwargs"), {"dict": [["a b", 1]]}),
    (("nodes", 3, "target"), "operator.setitem"),
    (("nodes", 0, "name"), "n"),
    (("rest", "modules"), {"m": {"is": "Module", "type": ""}}),
]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [*(("case.json", *each) for each in DEFECTS), *(("graph.json", *each) for each in GRAPH_DEFECTS)],
)
def test_a_defect_is_named_with_its_file(folder, name, place, value):
    put(folder / name, place, value)
    with pytest.raises(UsageError, match=name):
        load(folder)


def stored_case():
    case = small_case()
    return replace(case, inputs=(TensorInput("x", meta(2, 3), Stored("x")), case.inputs[1]))


@pytest.mark.parametrize("content", [None, b"", b"not a tensor file", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", "y"])
def test_a_missing_or_damaged_tensor_file_is_named(tmp_path, content):
    path = tmp_path / "tensors.safetensors"
    if content == "y":
        numpy.save_file({"y": np.zeros(3)}, path)  # not the tensor that the Case names
    elif content is not None:
        path.write_bytes(content)
    save(replace(stored_case(), tensors=path), tmp_path)
    with pytest.raises(UsageError, match=r"tensors\.safetensors"):
        load(tmp_path)


def test_a_value_that_was_never_written_down_is_refused(tmp_path):
    case = small_case()
    save(replace(case, inputs=(TensorInput("x", meta(2, 3), Recorded("x")), case.inputs[1])), tmp_path)
    with pytest.raises(UsageError):
        load(tmp_path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["FIFO", "link", "folder"])
def test_only_files_are_opened(folder, tmp_path, kind):
    place = folder / "graph.json"
    place.rename(tmp_path / "elsewhere")
    if kind == "FIFO":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    with pytest.raises(UsageError, match=r"graph\.json"):
        load(folder)
    if kind != "folder":
        with pytest.raises(UsageError, match=r"graph\.json"):
            check_folder(tmp_path)


def test_depth_and_size_are_limited(folder, tmp_path):
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    put(folder / "case.json", ("backend", "options"), value)
    with pytest.raises(UsageError):
        load(folder)
    (tmp_path / "large").write_bytes(b"x" * 11)
    assert read_text(tmp_path / "large", 11) == "x" * 11
    with pytest.raises(OSError, match="more than"):
        read_text(tmp_path / "large", 10)
