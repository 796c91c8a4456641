"""A process that dies within `minifier.capture`, and what `minify reduce` makes of what it left."""

import signal

import pytest
from layers import sampled
from test_in_process import ran, script_of

pytestmark = pytest.mark.timeout(200)

AT_COMPILING = """
import os, signal

def dies(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        os.kill(os.getpid(), signal.SIGSEGV)
    return gm.forward

with minifier.capture(sys.argv[1]):
    torch.compile(torch.sin, backend=dies)(torch.randn(2))
    torch.compile(fn, backend=dies)(torch.randn(2, 3))
"""

AT_RUNNING = """
import os, signal

def dies(gm, inputs):
    def run(x):
        if x.max() > 100:
            os.kill(os.getpid(), signal.SIGABRT)
        return gm.forward(x)

    return run

with minifier.capture(sys.argv[1], OPTIONS):
    compiled = torch.compile(fn, backend=dies)
    compiled(torch.randn(2, 3))
    compiled(torch.full((2, 3), 200.0))
"""


@pytest.mark.soak
def test_a_death_while_compiling_is_reduced(project):
    assert ran(project, AT_COMPILING).returncode == -signal.SIGSEGV
    assert all(path.name.startswith("unfinished-") for path in project.out.iterdir())
    assert ran(project, AT_COMPILING).returncode == -signal.SIGSEGV, "a job that is started again takes no offence"
    assert list(project.out.with_name("out-2").glob("unfinished-*"))
    done = project.minify("reduce", "--verify", "1", project.out)
    assert done.code == 0, done.stderr
    assert done.result["failure"]["kind"] == "signal" and "SIGSEGV" in str(done.result["failure"])
    repro = (project.out / "repro.py").read_text()
    assert "def dies(gm, inputs):" in repro and "return x.tanh()" in repro
    assert not list(project.out.glob("unfinished-*"))


def test_a_death_in_a_call_needs_its_inputs(project):
    assert ran(project, AT_RUNNING.replace("OPTIONS", "compare=False")).returncode == -signal.SIGABRT
    done = project.minify("reduce", "--verify", "1", project.out)
    assert done.code == 4 and "keep_inputs=True" in done.stderr
    assert list(project.out.glob("unfinished-*/status"))  # for who has another idea


@pytest.mark.parametrize("options", sampled(["keep_inputs=True, compare=False", "compare=True"]))
def test_a_death_in_a_call_whose_inputs_were_kept_is_reduced(project, options):
    """They are kept for a comparison as well."""
    assert ran(project, AT_RUNNING.replace("OPTIONS", options)).returncode == -signal.SIGABRT
    done = project.minify("reduce", "--verify", "1", project.out)
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "SIGABRT" in str(done.result["failure"]) and done.result["failure"]["stage"] == "run"


@pytest.mark.usefixtures("soak")
def test_a_process_that_ended_by_itself_left_no_case(project):
    text = """
    import os

    with minifier.capture(sys.argv[1]):
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        os._exit(7)
    """
    assert ran(project, text).returncode == 7 and list(project.out.glob("unfinished-*"))
    done = project.minify("reduce", project.out)
    assert done.code == 2 and "ended, but not in a backend call" in done.stderr
    assert ran(project, text).returncode == 7, "a job that is started again takes no offence"
    assert len(list(project.out.glob("unfinished-*"))) == 1


OTHERWISE = """
import os, signal

def dies(gm, inputs):
    def run(x):
        if x.sum() == 0:
            raise ValueError("nothing to do")
        os.kill(os.getpid(), signal.SIGSEGV)

    return run

with minifier.capture(sys.argv[1], compare=False):
    torch.compile(torch.sin, backend=dies)(torch.ones(2))
"""


@pytest.mark.soak
def test_another_failure_of_the_call_is_not_taken_for_the_death(project):
    assert ran(project, OTHERWISE).returncode == -signal.SIGSEGV
    done = project.minify("reduce", "--verify", "1", project.out)
    assert done.code == 4 and "ends otherwise: ValueError" in done.stderr and "keep_inputs=True" in done.stderr
    assert list(project.out.glob("unfinished-*")) and not (project.out / "case").exists()


WITHIN_EACH_OTHER = """
import os

os.mkdir(sys.argv[1])
with minifier.capture(sys.argv[1]):
    with minifier.capture(sys.argv[1]):
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
    torch.compile(torch.cos, backend="eager")(torch.ones(2))
    if os.fork() == 0:
        os._exit(0)
    print(sorted(os.listdir(sys.argv[1])))
with minifier.capture(sys.argv[1] + "/below/it"):
    torch.compile(torch.tan, backend="eager")(torch.ones(2))
print(os.listdir(sys.argv[1]))
"""


@pytest.mark.usefixtures("soak")
def test_captures_within_each_other_and_folders_that_were_there(project):
    done = ran(project, WITHIN_EACH_OTHER)
    assert done.returncode == 0, done.stderr
    inside, after = done.stdout.splitlines()
    assert inside.startswith("['unfinished-") and after == "[]"


@pytest.mark.soak
def test_a_folder_that_cannot_be_made_keeps_nobody_from_working(project):
    text = """
    with minifier.capture("/proc/nope"):
        print(torch.compile(torch.sin, backend="eager")(torch.zeros(1)).item())
    """
    done = ran(project, text)
    assert done.returncode == 0 and done.stdout == "0.0\n" and "keeps nothing" in done.stderr


@pytest.mark.usefixtures("soak")
def test_what_is_still_running_is_left_alone(project):
    text = """
    import signal

    def hangs(gm, inputs):
        print("in", flush=True)
        signal.pause()

    with minifier.capture(sys.argv[1]):
        torch.compile(torch.sin, backend=hangs)(torch.ones(2))
    """
    with script_of(project, text) as running:
        assert running.stdout.readline() == "in\n"
        done = project.minify("reduce", project.out)
        running.kill()
    assert done.code == 2 and "is still running" in done.stderr


def test_nothing_is_left_where_nothing_fails(project):
    text = "with minifier.capture(sys.argv[1]):\n    torch.compile(torch.sin, backend='eager')(torch.ones(2))"
    assert ran(project, text).returncode == 0
    assert not project.out.exists() and project.litter() == []
