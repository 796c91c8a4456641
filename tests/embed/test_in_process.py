"""`minifier.wrap` and `minifier.capture` in scripts that are run by plain python."""

import subprocess
import sys
import textwrap

import pytest
from clock import wait_until
from layers import SOAK, sampled
from vocabulary import Project, source_of
from warm_command import warm_python

pytestmark = pytest.mark.timeout(200)

# Ahead of each script: where a repro goes, and a function to compile.
HEAD = """
import sys
import torch
import minifier

ONCE = dict(out=sys.argv[1], options=["--verify", "1"])

def fn(x):
    return (x.sin() + 1).tanh().cos()
"""


def script_of(project: Project, text: str, *command: str, **more: str) -> subprocess.Popen[str]:
    """A process that runs the script of this text by python."""
    return subprocess.Popen(
        [sys.executable, *command, project.write(HEAD + source_of(text)), project.out],
        cwd=project.folder,
        env=project.environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(project: Project, text: str, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The same, when it has ended; by a fork that has torch already, unless python is given a command or variables."""
    if not command and not more:
        script = project.write(HEAD + source_of(text))
        environment = project.environment()
        return warm_python(script, project.out, folder=project.folder, environment=environment, timeout=180)
    with script_of(project, text, *command, **more) as process:
        out, err = process.communicate(timeout=180)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


REGISTERED = """
import oddlib

torch.compile(fn, backend=minifier.wrap("oddlib_tanh", **ONCE))(torch.randn(2, 3))
"""


def test_the_error_goes_on_with_a_note_where_the_repro_is(project):
    done = ran(project, REGISTERED)
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert lines[-1] == f"minifier: the repro is {project.out / 'repro.py'}"
    assert any("no lowering for tanh" in line for line in lines)
    repro = (project.out / "repro.py").read_text()
    assert "import oddlib.backends\n" in repro and 'backend="oddlib_tanh"' in repro and "return x.tanh()" in repro
    assert "minifier" not in repro and project.litter() == []


FORMS = {
    "defined in the script, in a call of what it compiled, the thousandth": """
        def mine(gm, inputs):
            calls = 0
            def run(*args):
                nonlocal calls
                calls += 1
                if calls % 1000 == 0 and any(node.target is torch.sin for node in gm.graph.nodes):
                    raise LookupError("the thousandth")
                return gm(*args)
            return run

        step = torch.compile(lambda x: torch.sin(x).cos() * 2, backend=minifier.wrap(mine, **ONCE))
        for n in range(2000):
            step(torch.randn(2))
        """,
    "in the backward pass": """
        from torch._dynamo.backends.common import aot_autograd

        def forward_compiler(gm, inputs):
            return gm.forward

        def backward_compiler(gm, inputs):
            if any("tanh_backward" in str(node.target) for node in gm.graph.nodes):
                raise LookupError("no tanh_backward")
            return gm.forward

        mine = aot_autograd(fw_compiler=forward_compiler, bw_compiler=backward_compiler)
        x = torch.randn(3, requires_grad=True)
        torch.compile(lambda x: x.sin().tanh().cos(), backend=minifier.wrap(mine, **ONCE))(x).sum().backward()
        """,
    "in a thread": """
        import threading

        def mine(gm, inputs):
            if any(node.target is torch.sin for node in gm.graph.nodes):
                raise LookupError("no sin")
            return gm.forward

        compiled = torch.compile(lambda x: torch.sin(x.cos()) + 1, backend=minifier.wrap(mine, **ONCE))
        def work():
            try:
                compiled(torch.randn(3))
            except Exception:
                import traceback
                traceback.print_exc()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """,
}


@pytest.mark.soak
@pytest.mark.parametrize("what", FORMS)
def test_whatever_the_script_does(project, what):
    done = ran(project, textwrap.dedent(FORMS[what]))
    assert f"minifier: the repro is {project.out / 'repro.py'}" in done.stderr, done.stderr
    repro = (project.out / "repro.py").read_text()
    assert "LookupError" in repro and repro.count("    return ") <= 8


def test_what_works_is_left_alone(project):
    text = """
import oddlib

wrapped = minifier.wrap("oddlib_tanh", **ONCE)
fn = torch.compile(lambda x: x.sin() * 2, backend=wrapped)
x = torch.randn(3)
assert torch.equal(fn(x), x.sin() * 2) and wrapped.repro is None
print("well")
"""
    done = ran(project, text)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
    assert not project.out.exists()


def test_the_first_rank_that_fails_is_reduced(project, soak):
    done = ran(project, REGISTERED, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    assert done.returncode != 0 and "another rank failed first" in done.stderr
    folders = sorted(path.name for path in project.out.iterdir() if path.is_dir())
    assert folders == ["rank-0", "rank-1"]
    assert all((project.out / name / "case" / "case.json").exists() for name in folders)
    # torchrun ends the others when one has failed; the reduction of the one that was first goes on.
    assert len(wait_until(lambda: list(project.out.glob("rank-*/bundle.zip")))) == 1


CAPTURED = """
import oddlib

with minifier.capture(sys.argv[1]):
    torch.compile(fn, backend="oddlib_tanh")(torch.randn(2, 3))
"""


@pytest.mark.parametrize("text", [pytest.param(REGISTERED, marks=SOAK), CAPTURED], ids=["wrap", "capture"])
def test_a_folder_with_something_in_it_is_left_alone(project, text):
    project.out.mkdir()
    (project.out / "mine.txt").write_text("mine")
    done = ran(project, text)
    other = project.out.with_name("out-2")
    assert done.returncode == 1 and str(other) in done.stderr and (other / "case").exists()
    assert [path.name for path in project.out.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("text", [pytest.param(REGISTERED, marks=SOAK), CAPTURED], ids=["wrap", "capture"])
def test_under_minify_run_the_script_is_as_without(project, text):
    done = project.run(HEAD + text, str(project.root / "unused"))
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert 'torch.compile(fn, backend="oddlib_tanh")(x)' in done.repro and "minifier" not in done.repro
    assert not (project.root / "unused").exists()


WRONG = """
def mine(gm, inputs):
    def run(*args):
        results = gm.forward(*args)
        return [2 * each for each in results] if any("tanh" in str(node.target) for node in gm.graph.nodes) else results
    return run

{begin}
compiled(torch.randn(2, 3))
compiled(torch.randn(2, 3))
print("went on")
"""
WRAPPED = "compiled = torch.compile(fn, backend=minifier.wrap(mine, **ONCE))"
WITHIN = """
compiled = torch.compile(fn, backend=mine)
capturing = minifier.capture(sys.argv[1])
capturing.__enter__()
import atexit
atexit.register(capturing.__exit__, None, None, None)
"""


@pytest.mark.parametrize("begin", sampled([WITHIN, WRAPPED]), ids=["capture", "wrap"])
def test_a_wrong_result_is_found_and_the_program_goes_on(project, begin):
    done = ran(project, WRONG.format(begin=begin))
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr.count("UserWarning: minifier: a result of graph 1 is wrong:") == 1, done.stderr
    if begin is WITHIN:
        assert f"`minify reduce {project.out}` makes a repro of it" in done.stderr
        assert project.minify("reduce", "--verify", "1", project.out).code == 0
    else:
        assert f"; the repro is {project.out / 'repro.py'}" in done.stderr
    repro = (project.out / "repro.py").read_text()
    assert "tanh()" in repro and "sin()" not in repro and "minifier" not in repro and project.litter() == []


def test_without_comparing_a_wrong_result_is_not_looked_for(project):
    done = ran(project, WRONG.format(begin=WRAPPED.replace("**ONCE", "compare=False, **ONCE")))
    assert (done.returncode, done.stdout) == (0, "went on\n") and "minifier" not in done.stderr
    assert not project.out.exists()
