"""The scripts that are written: they compute what the graph computes, and read as if a person had written them."""

import ast
import builtins
import keyword
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from case_text import case_of as case_from
from failing_cases import WRONG
from forked_script import python_forked
from real_graphs import GRAPHS, Captured, compiled_graphs, fresh, seeded

from minifier.data.case import BackendReference, BackendSource, Case, Drawn, ScalarInput, State, Stored, TensorInput
from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.errors import NoRepro
from minifier.repro.emit.forms import Template, Variant
from minifier.repro.emit.repro import write_repro
from minifier.torch_side.fx.arguments import tensor_meta
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private.graphs import as_hint

EAGER = BackendReference("eager", BackendSource.REGISTERED, '"eager"')
FRESH = (Template.COMPARE, Variant(fresh=True))
WRITTEN = [name for name in GRAPHS if name != "modules"]  # those no backend gets from Dynamo
LONGEST = 25


def case_of(captured: Captured, folder, stage=Stage.RUN) -> Case:
    """A failure of this call at this stage, with the real inputs."""
    file = TensorFile()
    graph = read_graph(captured.module, file)
    pairs = list(zip(graph.placeholders, captured.inputs, strict=True))
    stored = file.add_inputs({node.name: value for node, value in pairs if isinstance(value, torch.Tensor)})
    storages = {}
    inputs = tuple(
        TensorInput(
            node.name,
            tensor_meta(value, storages),
            stored[node.name],
            value.is_leaf,
            isinstance(value, torch.nn.Parameter),
        )
        if isinstance(value, torch.Tensor)
        else ScalarInput(node.name, as_hint(value), str(value))
        for node, value in pairs
    )
    fingerprint = Fingerprint(stage, Kind.EXCEPTION, ("RuntimeError",), message="no lowering")
    failure = Failure(fingerprint, "RuntimeError", "no lowering\nfor this graph")
    return Case(graph, inputs, EAGER, failure, tensors=file.write(folder / "tensors.safetensors"))


def run_up_to_the_call(text, file):
    """The script's names after all but its last statement; the call of the backend is the last."""
    tree = ast.parse(text)
    assert "eager" in ast.unparse(tree.body.pop())
    names = {"__name__": "__main__", "__file__": str(file)}
    exec(compile(tree, str(file), "exec"), names)
    return names


def test_a_negative_number_is_a_base(tmp_path):
    """torch's own code of such a graph is -2 ** x, which is minus a power of 2."""
    case = case_from("x: int64[1]\ny = operator.pow(-2, x)\nreturn y,")
    assert build_graph(case.graph, StoredTensors(None))(torch.tensor(2))[0] == 4
    drawn = replace(case.inputs[0], source=Drawn("zeros"))
    case = replace(case, backend=EAGER, state=State(), inputs=(drawn,))
    repro = write_repro(case, Template.COMPILE_FUNCTION)
    assert run_up_to_the_call(repro.text, tmp_path / "repro.py")["fn"](torch.tensor(2)) == 4


def argument_names(text):
    (function,) = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "fn"]
    return [a.arg for a in function.args.args]


def test_a_call_of_a_module_is_no_source(tmp_path):
    (captured,) = GRAPHS["modules"]()
    with pytest.raises(NoRepro, match="module"):
        write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_function_in_the_script_computes_what_the_graph_computes(name, tmp_path):
    for number, captured in enumerate(GRAPHS[name]()):
        (folder := tmp_path / str(number)).mkdir()
        case = case_of(captured, folder)
        repro = write_repro(case, Template.COMPILE_FUNCTION)
        path = repro.write(folder)
        names = run_up_to_the_call(repro.text, path)
        made = [names[argument] for argument in argument_names(repro.text)]
        # Tensors that the graph holds come behind its inputs.
        for mine, real in zip(made, captured.inputs, strict=name != "held tensors"):
            if not isinstance(real, torch.Tensor):
                assert mine == as_hint(real)
                continue
            torch.testing.assert_close(mine, real, rtol=0, atol=0)
            assert (mine.stride(), mine.requires_grad) == (real.stride(), real.requires_grad)
        result = names["fn"](*made)
        expected = build_graph(case.graph, StoredTensors(case.tensors))(*fresh(captured.inputs))
        flat, _ = torch.utils._pytree.tree_flatten((result,))
        wanted, _ = torch.utils._pytree.tree_flatten((expected,))
        torch.testing.assert_close(flat, wanted, rtol=0, atol=0, equal_nan=True)
        torch.compiler.reset()
        exec(compile(repro.text, "repro.py", "exec"), {"__name__": "__main__", "__file__": str(path)})


# What torch.fx.symbolic_trace, which this form of script uses, can trace.
TRACEABLE = [
    "kwargs",
    "several results",
    "operators",
    "attention",
    "methods",
    "complex numbers",
    "a module's parameters",
    "small floats",
]


@pytest.mark.parametrize("name", TRACEABLE)
def test_the_script_that_calls_the_backend_runs_to_its_end(name, tmp_path):
    (captured,) = GRAPHS[name]()
    repro = write_repro(case_of(captured, tmp_path), Template.CALL_BACKEND)
    exec(compile(repro.text, "repro.py", "exec"), {"__name__": "__main__", "__file__": str(repro.write(tmp_path))})


@pytest.fixture(scope="module")
def one_op_repros(tmp_path_factory, laborious):
    """For every atom of every graph of the table, the script that has it alone."""
    found = {}
    for name in WRITTEN:
        for captured in GRAPHS[name]():
            case = case_of(captured, tmp_path_factory.mktemp("graph"), Stage.COMPILE)
            for group in atoms(case.graph):
                part = with_ops(case, group)
                drawn = tuple(
                    replace(i, source=Drawn("zeros")) if isinstance(i, TensorInput) else i for i in part.inputs
                )
                found[f"{name}: {group[0]}"] = write_repro(replace(part, inputs=drawn), Template.COMPILE_FUNCTION)
    return found


def test_a_script_of_one_op_is_short_and_runs(one_op_repros, tmp_path):
    for name, repro in one_op_repros.items():
        assert repro.text.count("\n") <= LONGEST, f"{name}\n{repro.text}"
        try:
            names = run_up_to_the_call(repro.text, repro.write(tmp_path))
            names["fn"](*(names[argument] for argument in argument_names(repro.text)))
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}\n{repro.text}")


@pytest.mark.usefixtures("processes")
def test_nothing_is_imported_in_vain_or_missing(one_op_repros, tmp_path):
    for number, repro in enumerate(one_op_repros.values()):
        (tmp_path / f"one_op_{number}.py").write_text(repro.text)
    for number, name in enumerate(WRITTEN):
        for captured in GRAPHS[name]():
            case = case_of(captured, tmp_path)
            (tmp_path / f"fresh_{number}.py").write_text(write_repro(replace(case, failure=WRONG), *FRESH).text)
            for template in (Template.COMPILE_FUNCTION, Template.CALL_BACKEND, Template.COMPARE):
                (tmp_path / f"whole_{number}_{template.value}.py").write_text(write_repro(case, template).text)
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F,E9", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def names_in(text):
    """The names that the script assigns, and those that it imports."""
    tree = list(ast.walk(ast.parse(text)))
    stored = {n.id for n in tree if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored |= {a.arg for n in tree if isinstance(n, ast.FunctionDef) for a in n.args.args}
    imported = [alias for n in tree if isinstance(n, (ast.Import, ast.ImportFrom)) for alias in n.names]
    return stored, {(alias.asname or alias.name).partition(".")[0] for alias in imported}


@pytest.mark.parametrize("name", WRITTEN)
def test_names_are_short_and_shadow_nothing(name, tmp_path):
    for captured in GRAPHS[name]():
        names, imported = names_in(write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION).text)
        assert all(len(n) <= 3 or n == "tensors" for n in names), names
        assert not names & ({*dir(builtins), *keyword.kwlist, "torch", "fn"} | imported)


def test_an_in_place_matmul_makes_a_new_tensor_as_in_python(tmp_path):
    """The code that torch.fx itself generates for this overwrites `x`; what Python does is the measure."""

    def f(x, w):
        y = x
        y @= w
        return y, x.sum()

    x, w = seeded(2, 3), seeded(3, 3)
    (captured,) = compiled_graphs(f, x, w)
    repro = write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)
    names = run_up_to_the_call(repro.text, repro.write(tmp_path))
    torch.testing.assert_close(names["fn"](x, w), f(x, w))


def test_a_module_called_like_a_value_is_not_shadowed(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("import torch\n\n\n@torch.compiler.allow_in_graph\ndef b(x):\n    return x * 3\n")
    (tmp_path / "x.py").write_text("import torch\n\n\n@torch.compiler.allow_in_graph\ndef y(x):\n    return x + 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    a, x = __import__("a"), __import__("x")

    def f(value):
        return a.b(x.y(torch.sin(value)) * 2) - 1

    value = seeded(3)
    (captured,) = compiled_graphs(f, value)
    repro = write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)
    names = run_up_to_the_call(repro.text, repro.write(tmp_path))
    torch.testing.assert_close(names["fn"](value), f(value))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "state",
    [
        State(grad=False, config=(("torch._dynamo.config", "cache_size_limit", 3),)),
        State(grad=False, inference=True),
        State(autocast=(("cpu", "bfloat16"),), default_dtype="float64"),
    ],
)
def test_a_script_with_the_state_of_the_call_runs(state, tmp_path):
    (captured,) = compiled_graphs(torch.sin, seeded(2, 3))
    case = replace(case_of(captured, tmp_path), state=state)
    inputs = tuple(replace(i, source=Drawn("randn")) for i in case.inputs)
    repro = write_repro(replace(case, inputs=inputs), Template.COMPILE_FUNCTION)
    done = python_forked(repro.write(tmp_path / "repro"), tmp_path)
    assert done.returncode == 0, done.stderr


DRAWS = [
    (Drawn("randn"), "float32"), (Drawn("randn"), "bfloat16"), (Drawn("randn"), "float8_e4m3fn"),
    (Drawn("randn"), "complex64"),
    (Drawn("zeros"), "int64"), (Drawn("zeros"), "complex128"), (Drawn("bools"), "bool"),
    (Drawn("rand", -2.0, 5.5), "float32"),
    (Drawn("rand", 0.0, 1e-3), "float16"), (Drawn("randint", -3, 4), "int64"), (Drawn("randint", 0, 9), "uint8"),
    (Drawn("list", values=(1.5, -2.0, float("inf"), 0.0, 5.0, float("nan"))), "float32"),
    (Drawn("list", values=(True, False, True, True, False, False)), "bool"),
    (Drawn("list", values=(1, 2, 3, -4, 5, 6)), "int32"),
]  # fmt: skip
LAYOUTS = [(3, 1), (1, 2), (6, 2), (3, 0)]  # with grad and without in turn


@pytest.mark.usefixtures("laborious")
@pytest.mark.parametrize(("drawn", "dtype"), DRAWS, ids=str)
def test_inputs_in_the_script_are_those_of_the_probe(drawn, dtype, tmp_path):
    """Same values, types, strides and grades: otherwise the repro is not what was found to fail."""
    default = "float64" if dtype in ("float32", "int64") else "float32"
    (captured,) = compiled_graphs(torch.sin, seeded(2, 3))
    case = replace(case_of(captured, tmp_path), state=State(default_dtype=default))
    before = torch.get_default_dtype()
    for number, stride in enumerate(LAYOUTS if drawn.how != "list" else LAYOUTS[:1]):
        (item,) = case.inputs
        grad = number % 2 == 1 and dtype in ("float32", "bfloat16", "complex64")
        meta = replace(item.meta, dtype=dtype, stride=stride, requires_grad=grad)
        changed = replace(case, inputs=(replace(item, meta=meta, source=drawn),))
        text = write_repro(changed, Template.COMPILE_FUNCTION).text
        try:
            torch.set_default_dtype(getattr(torch, default))
            (probed,) = make_inputs(changed.inputs, StoredTensors(None), None)
            written = run_up_to_the_call(text, tmp_path / "repro.py")["x"]
        finally:
            torch.set_default_dtype(before)
        for made in (probed, written):
            told = (made.dtype, made.shape, made.stride(), made.requires_grad)
            assert told == (getattr(torch, dtype), (2, 3), stride, grad), text
        same = written.detach().float() if dtype.startswith("float8") else written.detach()
        torch.testing.assert_close(same, probed.detach().to(same.dtype), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("source", [None, Drawn("randn"), Drawn("list", values=(1.5, -2.0, 0.0, 5.0))], ids=str)
def test_the_stride_of_a_dimension_of_size_one_is_in_the_script(source, leaf, tmp_path):
    value = torch.randn(2, 1, 2).as_strided((2, 1, 2), (2, 1, 1)).requires_grad_()
    (captured,) = compiled_graphs(torch.sin, value if leaf else value.clone())
    case = case_of(captured, tmp_path)
    if source is not None:
        case = replace(case, inputs=(replace(case.inputs[0], source=source),))
    repro = write_repro(case, Template.COMPILE_FUNCTION)
    (probed,) = make_inputs(case.inputs, StoredTensors(case.tensors), None)
    written = run_up_to_the_call(repro.text, repro.write(tmp_path))["x"]
    assert probed.stride() == written.stride() == (2, 1, 1)
    assert (written.is_leaf, written.requires_grad) == (probed.is_leaf, True) and torch.equal(written, probed)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e5m2", "complex64", "complex128", "uint16", "bool"])
def test_stored_inputs_come_back_in_the_script(dtype, tmp_path):
    value = (torch.randn(2, 3) * 3).to(getattr(torch, dtype))
    value = value.t() if value.element_size() % 2 == 0 else value
    (captured,) = compiled_graphs(lambda x: x.clone(), value)
    repro = write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)
    made = run_up_to_the_call(repro.text, repro.write(tmp_path))["x"]
    assert (made.dtype, made.shape, made.stride()) == (value.dtype, value.shape, value.stride())
    assert torch.equal(made.clone().contiguous().view(torch.uint8), value.contiguous().view(torch.uint8))


def test_inputs_that_share_memory_share_it_in_the_script(tmp_path):
    base = torch.arange(6.0)
    captured = Captured(torch.fx.symbolic_trace(lambda x, y: x.sum() + y), (base, base[2:]))
    repro = write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)
    names = run_up_to_the_call(repro.text, repro.write(tmp_path))
    names["x"][3] = -1
    assert names["y"].tolist() == [2, -1, 4, 5]
    assert isinstance(case_of(captured, tmp_path).inputs[0].source, Stored)


AT_LEVEL = ("import functools", "from oddlib.backends import at_level")
EXPRESSIONS = [
    ('functools.partial(at_level, level=3, label="it\'s")', AT_LEVEL),
    ("functools.partial(at_level, level=3, label='say \"hi\"')", AT_LEVEL),
    ("strict", ("from oddlib.backends import strict",)),
]


@pytest.mark.parametrize("template", Template)
def test_the_backend_is_written_as_it_was_given(template, tmp_path):
    (captured,) = compiled_graphs(torch.sin, seeded(2).requires_grad_())
    for expression, imports in EXPRESSIONS:
        backend = BackendReference(
            "some", BackendSource.EXPRESSION, expression, imports, mode=None, options={"level": 'a"b', "n": [1, (2,)]}
        )
        text = write_repro(replace(case_of(captured, tmp_path), backend=backend), template).text
        parts = {ast.dump(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)}
        for part in (expression, "{'level': 'a\"b', 'n': [1, (2,)]}"):
            assert ast.dump(ast.parse(part, mode="eval").body) in parts, text
        assert set(imports) <= set(text.splitlines())


def test_import_lines_of_several_modules_and_several_lines(tmp_path):
    """As an object's `__minify__` may give them, and as formatters write them in a script."""
    for name in ("acme", "acme_ops", "oddlib"):
        (tmp_path / name).mkdir()
    case = case_from("x: float32[2]\ny = torch.tanh(x)\nreturn y,")
    backend = BackendReference(
        "acme()", BackendSource.DEFINED, "wrapped(run)", ("import acme, acme_ops",), folders=(str(tmp_path),)
    )
    imports = "from oddlib import (\n    refuse,\n    run,\n)\nfrom oddlib import tanh  # by hand\n"
    definitions = f"{imports}\n\ndef wrapped(backend):\n    return backend, refuse, tanh\n"
    backend = replace(backend, names=("wrapped", "run"))
    case = replace(case, backend=backend, definitions=definitions, state=State())
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    imported = [ast.unparse(node) for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert imported == ["import torch", "import acme", "import acme_ops", "from oddlib import refuse, run, tanh"]
    assert all(name in text.rpartition("Needs the folder")[2] for name in ("acme, acme_ops", "oddlib"))
