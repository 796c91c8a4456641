"""`minify run` from end to end: a script in, a verified repro out."""

import json
import shlex
import zipfile

import pytest
from failing_scripts import DEFINITION, ONE_OP, OPS, TWO_OPS
from layers import sampled
from vocabulary import CASES, run_alone

pytestmark = pytest.mark.timeout(240)


def assert_reduced(done, ops, before=None, runs=1):
    assert done.code == 0, done.stderr
    assert done.ops[1] == ops and (before is None or done.ops[0] == before), done.repro
    assert (
        done.result["verified"] == {"runs": runs, "same": runs, "control": "passed"}
        and done.result["one_minimal"] is True
    )
    assert "minifier" not in done.repro.replace("minifier_backends", "").replace("minifier-backends", "")


def test_one_op(minify, project):
    done = minify(ONE_OP, verify=3)
    assert_reduced(done, 1, before=OPS, runs=3)
    assert "torch.tanh(" in done.repro and 'backend="oddlib_tanh"' in done.repro and len(done.repro.splitlines()) <= 25

    result = done.result
    assert result["version"] == 1 and result["status"] == "reduced" and result["repro"] == "repro.py"
    assert (result["failure"]["stage"], result["failure"]["kind"]) == ("compile", "exception")
    assert result["failure"]["type"] == "oddlib.backends.LoweringError"
    assert result["backend"]["name"] == "oddlib_tanh" and result["backend"]["imports"] == ["import oddlib"]
    assert (result["inputs_after"], result["stopped_because"], result["others"]) == (1, None, [])
    counts = result["probes"]
    assert counts["total"] == sum(counts[v] for v in ("SAME", "OTHER", "PASS", "INVALID", "UNRESOLVED")) <= 20
    seconds = result["seconds"]
    assert {"script", "capture", "reduce", "verify", "total", "phases"} <= seconds.keys()
    assert sum(seconds["phases"].values()) == pytest.approx(seconds["total"], abs=0.1)

    wanted = {"repro.py", "report.md", "result.json", "bundle.zip", "case", "minimal", "journal.jsonl"}
    assert wanted <= {path.name for path in done.out.iterdir()}
    assert not list(done.out.glob(".*")), "half-written files were left"
    assert "Warning" not in done.stderr.partition("Traceback")[0], "warnings that the script did not cause"

    shown = project.minify("show", done.out)
    assert shown.code == 0 and done.stderr.endswith(shown.stdout), "the last lines once more"
    filed = project.minify("report", "--github", done.out)
    assert filed.code == 0 and shlex.split(filed.stdout.splitlines()[-1])[:3] == ["gh", "issue", "create"]
    assert "torch.tanh(" in (done.out / "issue.md").read_text()

    alone = run_alone(done.out / "repro.py", project.root / "elsewhere", fresh=True)
    assert alone.returncode == 1 and "LoweringError: no lowering for tanh" in alone.stderr
    assert "minifier" not in alone.stderr

    with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
        assert {"repro.py", "report.md", "result.json"} <= set(bundle.namelist())
        content = "".join(bundle.read(name).decode() for name in bundle.namelist() if not name.endswith("safetensors"))
    assert str(project.root) not in content and str(CASES) not in content, "a private path is in the bundle"


HABITS = """
import argparse, atexit, os, pathlib, sys, threading
import torch
import oddlib

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, required=True)
arguments = parser.parse_args()
here = pathlib.Path(__file__).resolve().parent
assert here.joinpath("data.txt").read_text() == "data" and sys.argv[0].endswith("failing.py") and __name__ == "__main__"
atexit.register(lambda: os.write(1, b"handler ran\\n"))
print("x" * 100_000)
threading.Thread(target=lambda: print("thread ran")).start()
sys.stdout.flush()
if (child := os.fork()) == 0:
    print("child ran")
    sys.exit(3)
print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.chdir("/")


@torch.compile(backend="oddlib_pair")
def f(x):
    x = torch.softmax(x, -1)
    for _ in range(arguments.layers):
        x = torch.sin(x) * 1.5
    return torch.cos(torch.tanh(x))


try:
    f(torch.randn(4, 8))
except Exception as error:
    print("caught:", type(error).__name__)
    sys.stdout.close()
    sys.exit(7)
"""


def test_two_distant_ops_in_a_script_with_many_habits(minify, project):
    project.write("data", "data.txt").write_text("data")
    done = minify(HABITS, "--layers", "12")
    assert_reduced(done, 2, before=27)
    assert "torch.softmax(" in done.repro and "torch.tanh(" in done.repro and "torch.sin" not in done.repro
    said = [line for line in done.stdout.splitlines() if not line.startswith("xxx")]
    assert sorted(said) == [
        "caught: BackendCompilerFailed",
        "child ended with 3",
        "child ran",
        "handler ran",
        "handler ran",
        "thread ran",
    ]
    assert max(map(len, done.stdout.splitlines())) == 100_000


@pytest.mark.soak
def test_of_two_nearly_equal_errors_the_one_that_was_met(minify, project):
    done = minify(
        """
        import torch
        import oddlib

        def f(x):
            x = torch.nn.functional.layer_norm(x, (8,))
            for _ in range(6):
                x = torch.sin(x) * 1.5
            return torch.cos(torch.tanh(x))

        torch.compile(f, backend="oddlib_two_errors")(torch.randn(4, 8))
        """
    )
    assert_reduced(done, 2)
    assert "fusion.cc:120" in done.result["failure"]["message"] and "layer_norm" in done.repro
    (other,) = done.result["others"]
    assert "fusion.cc:188" in other["message"] and other["ops"] == 1 and other["near"]
    done = project.minify("reduce", "--verify", "1", "--out", project.folder.parent / "other", done.out / other["case"])
    assert done.code == 0 and "fusion.cc:188" in (project.folder.parent / "other" / "repro.py").read_text()


def test_a_failure_at_run_time_that_depends_on_values(minify, project):
    done = minify(
        """
        import torch
        import oddlib

        torch.manual_seed(0)

        @torch.compile(backend="oddlib_values")
        def score(x, w):
            for _ in range(5):
                x = torch.relu(x @ w) + 0.01 * torch.sin(x)
                x = x / x.abs().sum(-1, keepdim=True)
            y = torch.cumsum(x * 3, -1)
            return (torch.log1p(y.abs()) * 2).mean()

        print(score(torch.randn(8, 32), torch.randn(32, 32)))
        """
    )
    assert_reduced(done, 1)
    assert "torch.cumsum(" in done.repro and done.result["failure"]["stage"] == "run"
    alone = run_alone(done.out / "repro.py", project.root / "elsewhere")
    assert alone.returncode == 1 and "oddlib.backends.Overflow: accumulator of cumsum ran over" in alone.stderr


def test_a_partial_and_the_module_form_of_the_command(project):
    project.write("", "package/__init__.py")
    project.write(
        """
        import functools, sys
        import torch
        from oddlib.backends import at_level

        assert __name__ == "__main__" and sys.argv[1:] == ["one", "--two"] and __spec__.name == "package.failing"
        label = '''it's a "label"'''

        @torch.compile(backend=functools.partial(at_level, level=3, label=label))
        def f(x):
            return torch.cos(torch.tanh(torch.sin(x)))

        f(torch.randn(3))
        """,
        "package/failing.py",
    )
    done = project.minify("run", "--out", project.out, "-m", "package.failing", "one", "--two")
    assert_reduced(done, 1, before=3, runs=3)
    assert "import functools" in done.repro and "from oddlib.backends import at_level" in done.repro
    assert "functools.partial(at_level" in done.repro


@pytest.mark.parametrize(
    "imported", sampled(["", "import minifier_backends.planting\n"]), ids=["not imported", "imported"]
)
def test_a_backend_found_by_its_entry_point(minify, imported):
    done = minify(
        imported
        + """
import torch

@torch.compile(backend="faulty_installed", options={"op": "cos"})
def f(x):
    return torch.cos(torch.sin(x)) * 2

f(torch.randn(3))
""",
        path=(),
    )
    assert_reduced(done, 1, before=3)
    assert ("import minifier_backends.planting" in done.repro) is bool(imported) and '"op": "cos"' in done.repro
    assert done.result["backend"]["distribution"] == "minifier-backends" and "minifier-backends 0.1.0" in done.repro


def test_every_failing_graph_in_turn(minify):
    done = minify(
        """
        import torch
        import oddlib

        def f(x):
            x = torch.cos(torch.tanh(torch.sin(x)))
            torch._dynamo.graph_break()
            return torch.softmax(x, -1)

        def g(x):
            return torch.tanh(torch.softmax(x, -1)) + 1

        for function, backend in ((torch.sin, "oddlib_tanh"), (f, "oddlib_tanh"), (g, "oddlib_pair")):
            try:
                torch.compile(function, backend=backend)(torch.randn(4, 8))
            except Exception:
                torch._dynamo.reset()
        """,
        given=["--all"],
        timeout=200,
    )
    assert done.code == 0, done.stderr
    results = [json.loads(path.read_text()) for path in sorted(done.out.glob("graph-*/result.json"))]
    assert [(each["ops_after"], each["backend"]["name"]) for each in results] == [
        (1, "oddlib_tanh"),
        (2, "oddlib_pair"),
    ]
    assert all(len(each["others"]) == 1 for each in results)


@pytest.mark.soak
def test_a_suppressed_exception_that_dynamo_passes_on_unwrapped(minify):
    done = minify(
        DEFINITION
        + """
import torch._dynamo.config

torch._dynamo.config.suppress_errors = True
print(torch.compile(f, backend="oddlib_index")(torch.randn(4, 8)).shape)
"""
    )
    assert_reduced(done, 1)
    assert done.result["failure"]["type"] == "IndexError" and done.result["failure"]["stage"] == "compile"
    assert done.stdout == "torch.Size([4, 8])\n" and "suppress_errors" not in done.repro


@pytest.mark.soak
def test_inputs_that_the_failing_call_changed(minify):
    done = minify(
        """
        import torch
        import oddlib

        x = torch.ones(4) * 3
        x[2] = 500.0
        torch.compile(lambda x: torch.cos(torch.tanh(x)) + torch.sin(x), backend="oddlib_overwrites")(x)
        """
    )
    assert_reduced(done, 1)
    assert "input above 100" in done.result["failure"]["message"] and done.result["failure"]["stage"] == "run"


def test_a_mode_the_failure_needs_stays_and_one_it_does_not_need_goes(minify):
    done = minify(
        TWO_OPS
        + """
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    torch.compile(f, backend="oddlib_no_grad")(torch.randn(4, 8))
"""
    )
    assert_reduced(done, 1)
    assert "with torch.no_grad():" in done.repro and "autocast" not in done.repro


def test_a_backend_defined_in_the_script_is_written_into_the_repro(minify):
    backend = "backend = lambda gm, inputs: gm if len(gm.graph.nodes) < 3 else {}[0]"
    done = minify(f"import torch\n\n{backend}\n\ntorch.compile(torch.sin, backend=backend)(torch.ones(3))\n")
    assert_reduced(done, 1)
    assert f"\n{backend}\n" in done.repro and done.result["backend"]["reference"] == "backend"
    assert done.stderr.count("Traceback") == 1, "only the script's own"


@pytest.mark.soak
def test_the_script_itself_is_reduced_where_its_graph_cannot_be_written_down(minify):
    done = minify(
        """
        import torch
        from torch.testing._internal.two_tensor import TwoTensor
        import oddlib

        def shape_of(x):
            return x.shape

        made = TwoTensor(torch.ones(2), torch.ones(2))
        print(shape_of(made))
        torch.compile(lambda x: torch.tanh(x.sin()) * 2, backend="oddlib_tanh")(made)
        """
    )
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source" and done.result["backend"]["name"] == "oddlib_tanh"
    assert "TwoTensor" in done.stderr and "TwoTensor" not in done.repro and "shape_of" not in done.repro


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(280)
def test_real_inductor_writes_what_its_compiler_refuses(project):
    """torch's own switch makes inductor write a relu that g++ refuses; the repro needs the switch."""
    done = project.run(
        """
        import torch
        import torch._inductor.config

        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


        @torch.compile
        def f(x):
            for _ in range(3):
                x = torch.nn.functional.gelu(x) + torch.sin(x)
            return torch.nn.functional.relu(x) * 2

        f(torch.randn(4, 32))
        """,
        timeout=270,
    )
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and "relu" in done.repro
    assert 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"' in done.repro
    assert done.result["failure"]["type"].endswith("CppCompileError")
