"""A Case as a folder, sound and broken."""

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from case_samples import call, graph, meta, output, placeholder, small_case
from safetensors import numpy

from minifier.case import Graph, Node, Recorded, Ref, Stored, TensorInput
from minifier.case.graph import Module
from minifier.case.store import graph_from_text, graph_to_text, load, save
from minifier.errors import CannotSave, UsageError


@pytest.fixture
def folder(tmp_path):
    save(small_case(), tmp_path / "case")
    return tmp_path / "case"


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_a_case_comes_back_as_it_was(folder):
    assert load(folder) == small_case()


def test_saving_over_itself_changes_nothing(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    save(load(folder), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_the_graph_has_one_node_a_line(folder):
    lines = (folder / "graph.json").read_text().splitlines()
    assert sum('"is": "Node"' in line for line in lines) == len(small_case().graph.nodes)
    assert all(line.count('"is": "Node"') <= 1 for line in lines)


def test_graph_text_comes_back_with_modules_and_attributes():
    inner = graph(placeholder("y"), call("gelu", "torch.nn.functional.gelu", Ref("y")), output("gelu"))
    linear = Module("torch.nn.Linear", {"in_features": 3}, {"weight": "lin.weight"}, training=True)
    whole = Graph(
        (
            placeholder("x"),
            Node("w", "get_attr", "w", value=meta(3)),
            Node("lin", "call_module", "lin", (Ref("x"),), {}, meta(2, 3)),
            call("add", "operator.add", Ref("lin"), Ref("w")),
            output("add"),
        ),
        {"w": "w"},
        {"lin": linear, "branch": Module("torch.fx.GraphModule", graph=inner, children={"lin": linear})},
    )
    assert graph_from_text(graph_to_text(whole)) == whole


def test_what_cannot_be_written_is_named_with_its_op():
    bad = graph(placeholder("x"), call("add", "operator.add", Ref("x"), object()), output("add"))
    with pytest.raises(CannotSave, match=r"op add \(operator\.add\).*builtins\.object"):
        graph_to_text(bad)


@pytest.mark.parametrize("name", ["case.json", "graph.json"])
@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", "null", '{"version": 2}', b"\xff\xfe\x00", '{"version": 1}', "[" * 100_000]
)
def test_a_damaged_file_is_named(folder, name, content):
    path = folder / name
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=name):
        load(folder)


def truncated(path):
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


@pytest.mark.parametrize("name", ["case.json", "graph.json"])
def test_a_truncated_file_is_named(folder, name):
    truncated(folder / name)
    with pytest.raises(UsageError, match=name):
        load(folder)


def test_another_version_is_named_as_such(folder):
    edit(folder / "case.json", lambda data: data.update(version=99))
    with pytest.raises(UsageError, match=r"case\.json.*version"):
        load(folder)


@pytest.mark.parametrize("part", ["backend", "failure", "state", "script"])
def test_an_unknown_field_is_named(folder, part):
    edit(folder / "case.json", lambda data: data[part].update(colour="green"))
    with pytest.raises(UsageError, match=r"case\.json.*colour"):
        load(folder)


@pytest.mark.parametrize("part", ["inputs", "backend", "failure", "state", "script", "tensors"])
def test_a_missing_part_is_named(folder, part):
    edit(folder / "case.json", lambda data: data.pop(part))
    with pytest.raises(UsageError, match=rf"case\.json.*{part}"):
        load(folder)


def no_output(data):
    data["nodes"].pop()


def two_of_a_name(data):
    data["nodes"].insert(0, data["nodes"][0])


def dangling(data):
    data["nodes"][2]["args"] = {"tuple": [{"node": "nowhere"}]}


def reads_itself(data):
    data["nodes"][2]["args"] = {"tuple": [{"node": "tanh"}]}


def another_placeholder(data):
    data["nodes"][0]["name"] = "y"
    data["nodes"][2]["args"] = {"tuple": [{"node": "y"}]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_output, "not an output"),
        (two_of_a_name, "'x'"),
        (dangling, "'nowhere'"),
        (reads_itself, "'tanh'"),
        (another_placeholder, "placeholders and the inputs"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(folder, change, said):
    edit(folder / "graph.json", change)
    with pytest.raises(UsageError, match=rf"graph\.json.*{said}"):
        load(folder)


def stored_case():
    case = small_case()
    return replace(case, inputs=(TensorInput("x", meta(2, 3), Stored("x")), case.inputs[1]))


def test_a_missing_tensor_file_is_named(tmp_path):
    save(stored_case(), tmp_path)
    with pytest.raises(UsageError, match=r"tensors\.safetensors"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a tensor file", b"\x10\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_damaged_tensor_file_is_named(tmp_path, content):
    (tmp_path / "tensors.safetensors").write_bytes(content)
    save(replace(stored_case(), tensors=tmp_path / "tensors.safetensors"), tmp_path)
    with pytest.raises(UsageError, match=r"tensors\.safetensors"):
        load(tmp_path)


def test_a_tensor_that_the_file_lacks_is_named(tmp_path):
    numpy.save_file({"y": np.zeros(3)}, tmp_path / "tensors.safetensors")
    save(replace(stored_case(), tensors=tmp_path / "tensors.safetensors"), tmp_path)
    with pytest.raises(UsageError, match=r"'x'.*tensors\.safetensors"):
        load(tmp_path)


def test_a_value_that_was_never_written_down_is_refused(tmp_path):
    case = small_case()
    save(replace(case, inputs=(TensorInput("x", meta(2, 3), Recorded("x")), case.inputs[1])), tmp_path)
    with pytest.raises(UsageError, match="not saved"):
        load(tmp_path)


def places(data, here=()):
    """Paths to every value inside a JSON document."""
    yield here
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in children:
        yield from places(item, (*here, key))


NONSENSE = [
    None, True, -2, 0.5, "", "x", [], {}, [[]], {"tuple": None}, {"node": 3},
    {"complex": []}, {"complex": [1]}, {"slice": []},
    {"dict": [[[], 1]]}, {"set": [[1]]}, {"range": [1, 2, 0]}, {"float": "much"}, {"is": "State"}, {"is": "TensorMeta"},
]  # fmt: skip


@pytest.mark.parametrize("name", ["case.json", "graph.json"])
def test_no_damage_is_anything_but_a_usage_error(folder, name):
    """Whatever is put in place of any part of a Case, loading either works or says which folder is damaged."""
    path = folder / name
    text = path.read_text()
    refused = 0
    for place in filter(None, places(json.loads(text))):
        for nonsense in NONSENSE:
            content = json.loads(text)
            *way, last = place
            holder = content
            for key in way:
                holder = holder[key]
            holder[last] = nonsense
            path.write_text(json.dumps(content))
            try:
                load(folder)
            except UsageError as error:
                refused += 1
                assert "json is damaged" in str(error), f"{nonsense} at {place}: {error}"
    assert refused > 200


def test_a_case_copied_elsewhere_is_the_same_case(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert load(tmp_path / "elsewhere") == copy.copy(load(folder))
