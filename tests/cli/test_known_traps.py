"""What other minifiers are known to have got wrong, and what no other test here looks at."""

import sys

import pytest
from failing_scripts import DEFINITION, ONE_OP
from vocabulary import CASES, in_child, source_of
from warm_command import warm_command, warm_python

from minifier.capturing.capture import capture
from minifier.capturing.script import Program
from minifier.capturing.script_limits import Comparing, Terms
from minifier.data.failure import Tolerance
from minifier.repro.emit.forms import Template, templates_for

pytestmark = pytest.mark.timeout(200)

WRONG_HERE_NARROW_THERE = """
import torch
import oddlib
from torch._dynamo import register_backend

def f(x):
    y = torch.sigmoid(torch.sin(x))
    return torch.cos(y), torch.exp(x) + 1

print(torch.compile(f, backend="oddlib_wrong_and_narrow")(torch.randn(4, 8))[0].sum())
"""


def captured_and_compared(bureau, text, trains=False):
    """What a second, comparing run of the script shows."""
    script = bureau.folder / "failing.py"
    script.write_text(source_of(text))

    def work():
        sys.path[0] = str(CASES)
        return capture(Program(str(script), ()), bureau.graphs, Terms(comparing=Comparing(Tolerance(), trains)))

    return in_child(work, bureau.folder, 100)


@pytest.mark.soak
def test_a_wrong_value_is_not_followed_to_another_dtype(bureau):
    """A wrong result was once reduced to an assertion about the types of outputs, and then to nothing."""
    captured = captured_and_compared(bureau, WRONG_HERE_NARROW_THERE)
    assert [failing.failure.fingerprint.message for failing in captured.failing] == ["values"]
    summary, case = bureau.reduce()
    assert summary.one_minimal
    assert [node.target for node in case.graph.ops] == ["torch.sigmoid"]
    assert case.failure.fingerprint.message == "values"


@pytest.mark.soak
def test_integer_inputs_are_not_made_zeros(bureau):
    """The divergence of an embedding whose first row is right vanished with its indices."""
    captured = captured_and_compared(
        bureau,
        """
        import torch
        import oddlib

        def f(tokens, table):
            return torch.sin(torch.nn.functional.embedding(tokens, table)) + 1

        print(torch.compile(f, backend="oddlib_wrong_rows")(torch.tensor([0, 3, 5]), torch.randn(6, 4)).sum())
        """,
    )
    assert len(captured.failing) == 1
    _summary, case = bureau.reduce()
    assert [node.target for node in case.graph.ops] == ["torch.nn.functional.embedding"]


@pytest.mark.soak
def test_torchs_own_minifier_is_not_started_by_a_repro(project):
    """The environment of the user's shell may switch it on."""
    variables = {"TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCHDYNAMO_REPRO_LEVEL": "2"}
    done = project.run(ONE_OP, **variables)
    assert done.code == 0 and done.result["verified"]["same"] == 1, done.stderr
    assert "minifier_launcher" not in done.stderr and not list(project.folder.glob("**/minifier_launcher.py"))


def test_the_script_sees_what_it_would_see_without_the_tool(bureau, tmp_path):
    """Where a minifier changes what is compiled, the bug may vanish: graph, inputs and results stay as they are."""
    text = (
        DEFINITION
        + """
import hashlib

def backend(gm, example_inputs):
    text = gm.print_readable(print_output=False) + str([type(x).__name__ for x in example_inputs])
    print(hashlib.sha256(text.encode()).hexdigest())
    return gm.forward

torch.manual_seed(0)
compiled = torch.compile(f, backend=backend)
for size in (4, 5, 6):
    print(compiled(torch.randn(size, 8)).sum().item(), torch.rand(1).item())
"""
    )
    script = bureau.folder / "failing.py"
    script.write_text(source_of(text))
    environment = {"PYTHONPATH": str(CASES), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    plain = warm_python(script.name, folder=bureau.folder, environment=environment, timeout=100)
    assert plain.returncode == 0, plain.stderr
    command = ["run", "--compare", "never", script.name]
    watched, _ = warm_command().start(command, bureau.folder, environment).communicate(100)
    assert watched == plain.stdout


UNCOUNTED = """
import torch
import mutable

f = torch.compile(lambda x: torch.sigmoid(x.sin()) + 1, backend=mutable.backend)
with torch.inference_mode(INFERENCE):
    f(torch.full((4,), 9.0))
"""
MUTABLE = """
import torch

def backend(gm, inputs):
    def run(*args):
        is_large = bool((args[0] > 5).any())
        args[0].data.mul_(0)
        if is_large:
            raise RuntimeError("too large")
        return gm.forward(*args)
    return run
"""


@pytest.mark.parametrize("inference", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_inputs_changed_behind_the_version_counters_back(project, inference):
    """The inputs that were saved after the call are not those it failed on, and nothing tells."""
    project.write(MUTABLE, "mutable.py")
    done = project.run(UNCOUNTED.replace("INFERENCE", str(inference)))
    assert done.code == 0, done.stderr
    assert done.result["failure"]["message"] == "too large"


DIES_WHERE_EAGER_RAISES = """
import torch
import oddlib

f = torch.compile(lambda x, i: x.sin()[i].cos(), backend="oddlib_aborts_on_errors")
f(torch.randn(10), torch.tensor([1, 77]))
"""


@pytest.mark.soak
def test_a_process_that_ends_where_eager_raises(bureau):
    """The graph was blamed, since eager fails on it as well."""
    captured = captured_and_compared(bureau, DIES_WHERE_EAGER_RAISES)
    assert [failing.failure.message for failing in captured.failing] == ["SIGABRT"]
    _, case = bureau.reduce()
    assert len(case.graph.ops) == 1 and templates_for(case) == (Template.EXPECT_EXCEPTION,)
