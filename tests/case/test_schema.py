"""What a Case may hold: each defect is refused with its place."""

import json
import os

import pytest
from case_samples import small_case

from minifier.case.case import BackendSource
from minifier.case.decode import MAX_DEPTH, parsed
from minifier.case.files import check_folder, read_text
from minifier.case.store import load, save
from minifier.errors import UsageError


@pytest.fixture
def folder(tmp_path):
    save(small_case(), tmp_path / "case")
    return tmp_path / "case"


def put(path, place, value):
    data = json.loads(path.read_text())
    holder = data
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    path.write_text(json.dumps(data))


META = ("inputs", 0, "meta")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ((*META, "shape"), [2, -3], "inputs[0].meta.shape[1]: expected a number from 0 to 2**63"),
        ((*META, "shape"), [2, 10**400], "inputs[0].meta.shape[1]: the integer has more than 1,000 bits"),
        ((*META, "shape"), [2**40, 2**40], "inputs[0].meta.shape: the tensor has more than 2**63 elements"),
        ((*META, "stride"), [3, 1, 1], "inputs[0].meta.stride: expected 2 strides, as many as sizes; found 3"),
        ((*META, "stride"), [2**60, 1], "inputs[0].meta.shape: the tensor takes more than 2**47 bytes"),
        ((*META, "dtype"), "load", "inputs[0].meta.dtype: expected a dtype, found 'load'"),
        ((*META, "device"), "cpu)", "inputs[0].meta.device: expected a device"),
        ((*META, "symbols"), ["s0"], "inputs[0].meta.symbols: expected 2 symbols"),
        (
            (*META, "symbols"),
            ["__import__('os').x", None],
            "inputs[0].meta.symbols[0]: expected an expression of sizes",
        ),
        (("inputs", 0, "name"), "class", "inputs[0].name: expected an identifier, found 'class'"),
        (("inputs", 0, "source", "how"), "eval", "inputs[0].source.how: expected one of"),
        (("inputs", 0, "storage"), 2, "inputs[0].storage: the tensor reaches beyond its storage"),
        (("inputs", 1, "value"), [], "inputs[1].value: expected int or float or bool or str, found list"),
        (("backend", "imports"), ["import os; os.abort()"], "backend.imports[0]: expected an import statement"),
        (("backend", "imports"), ["from . import x"], "backend.imports[0]: expected an import statement"),
        (("backend", "imports"), [""], "backend.imports[0]: expected an import statement"),
        (("backend", "expression"), "a, b", "backend.expression: expected an expression"),
        (("backend", "expression"), "a # b", "backend.expression: expected an expression"),
        (("backend", "expression"), "a), f(b", "backend.expression: it is no Python"),
        (("backend", "expression"), "-" * 90_000 + "1", "backend.expression: its source is nested"),
        (("backend", "names"), ["a b"], "backend.names[0]: expected an identifier"),
        (("backend", "folders"), ["a\0b"], "backend.folders[0]: expected the path of a folder"),
        (("backend", "reach"), "magic", "backend.reach: expected one of registered, entry-point"),
        (("definitions",), "def f(:", "definitions: it is no Python"),
        (("calls",), 10**11, "calls: expected a number from 1 to"),
        (("calls",), True, "calls: expected int, found bool"),
        (("rate",), 0.0, "rate: expected a number"),
        (("patience",), {"float": "nan"}, "patience: expected a number"),
        (("script", "name"), "../..", "script.name: expected a plain file name, found '../..'"),
        (("script", "name"), "a/b", "script.name: expected a plain file name"),
        (("script", "name"), "", "script.name: expected a plain file name"),
        (("script", "ops"), ["x"], "script.ops[0]: expected an operator"),
        (("state", "config"), {"tuple": [{"tuple": ["os;", "x", 1]}]}, "state.config[0][0]: expected a dotted name"),
        (("state", "environment"), [["A=B", "1"]], "state.environment[0][0]: expected the name of an environment"),
        (("failure", "type"), "X\nimport os", "failure.type: expected one line"),
        (("failure", "message"), "\ud800", "failure.message: it has a lone surrogate"),
        (("tensors",), "../other.safetensors", "tensors: expected null or tensors.safetensors"),
        (("colour",), "green", "a Case has no field 'colour'"),
    ],
)
def test_a_defect_of_the_case_has_its_place(folder, place, value, said):
    put(folder / "case.json", place, value)
    with pytest.raises(UsageError) as caught:
        load(folder)
    assert f"case.json is damaged: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("nodes", 2, "target"), "torch.a b", "nodes[2].target: expected a dotted name"),
        (("nodes", 2, "target"), "tanh", "nodes[2].target: expected a function of a module"),
        (("nodes", 2, "target"), "os;x:y", "nodes[2].target: expected a dotted name"),
        (("nodes", 2, "op"), "call", "nodes[2].op: expected one of"),
        (("nodes", 2, "args"), [{"node": "x"}], "nodes[2].args: expected a tuple, found list"),
        (("nodes", 2, "args"), {"tuple": [{"node": 3}]}, "nodes[2].args[0].name: expected str, found int"),
        (("nodes", 2, "args"), {"tuple": [10**400]}, "nodes[2].args[0]: the integer has more than 1,000 bits"),
        (("nodes", 2, "args"), {"tuple": [{"range": [0, 1, 0]}]}, "nodes[2].args[0]: expected three integers"),
        (("nodes", 2, "args"), {"tuple": [{"set": [[1]]}]}, "nodes[2].args[0]: unhashable"),
        (("nodes", 2, "args"), {"tuple": [{"object": "a b"}]}, "nodes[2].args[0].path: expected a dotted name"),
        (("nodes", 2, "kwargs"), {"dict": [["a b", 1]]}, "nodes[2].kwargs['a b']: expected an identifier"),
        (("nodes", 3, "target"), "operator.setitem", "nodes[3].args: expected 3 arguments"),
        (("nodes", 4, "args"), {"tuple": []}, "nodes[4].args: expected 1 arguments of output"),
        (("rest", "modules"), {"m": {"is": "Module", "type": ""}}, "rest.modules['m'].type: expected the class"),
    ],
)
def test_a_defect_of_the_graph_has_its_place(folder, place, value, said):
    put(folder / "graph.json", place, value)
    with pytest.raises(UsageError) as caught:
        load(folder)
    assert f"graph.json is damaged: {said}" in str(caught.value)


def test_a_backend_has_an_expression_or_a_reason(folder):
    put(folder / "case.json", ("backend", "expression"), "")
    with pytest.raises(UsageError, match=r"backend\.expression: expected the expression"):
        load(folder)
    put(folder / "case.json", ("backend", "reach"), BackendSource.NONE.value)
    assert load(folder).backend.expression == ""


def test_depth_is_limited():
    assert parsed("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match=f"nested deeper than {MAX_DEPTH} levels"):
            parsed("[" * levels + "]" * levels)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("kind", "said"), [("FIFO", "a FIFO"), ("link", "a link"), ("folder", "a folder")])
def test_only_files_are_opened(folder, tmp_path, kind, said):
    place = folder / "graph.json"
    place.rename(tmp_path / "elsewhere")
    if kind == "FIFO":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
    with pytest.raises(UsageError, match=rf"graph\.json cannot be read .it is {said}"):
        load(folder)
    if kind != "folder":
        with pytest.raises(UsageError, match=rf"graph\.json is {said}"):
            check_folder(tmp_path)


def test_a_file_has_a_limited_size(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 11)
    assert read_text(tmp_path / "large", 11) == "x" * 11
    with pytest.raises(OSError, match="more than 10"):
        read_text(tmp_path / "large", 10)
