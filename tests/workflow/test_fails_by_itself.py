"""A script is said to fail by itself only if it fails in eager mode as well; else torch.compile is at fault."""

import pytest

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("processes")]

IN_TRACING = """
    import os

    import torch


    @torch.compiler.assume_constant_result
    def table():
        {fault}
        return 2


    def fn(x):
        x = torch.tanh(x) + 1
        return x * table()


    print("started")
    x = torch.ones(4)
    print(torch.compile(fn, backend="eager", fullgraph=True)(x + 1).sum())
"""
ONLY_TRACED = "if torch._guards.TracingContext.try_get():\n            {}"


def script(statement):
    return IN_TRACING.format(fault=ONLY_TRACED.format(statement))


@pytest.mark.soak
def test_a_death_while_dynamo_traces(minify):
    done = minify(script("os.kill(os.getpid(), 11)"))
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source" and done.result["failure"]["kind"] == "signal"
    assert done.result["verified"]["control"] == "passed" and done.result["verified"]["same"] >= 1
    assert "os.kill" in done.repro and "tanh" not in done.repro and "started" not in done.repro


@pytest.mark.soak
def test_an_exception_that_no_frame_of_torch_raises(minify):
    """The innermost frame is the script's: the traceback alone looks like the script's own mistake."""
    done = minify(script("raise IndexError('no row 3')"))
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source" and "IndexError" in done.result["failure"]["message"] + done.repro
    assert done.result["backend"]["name"] == "torch.compile"
    assert done.result["verified"]["control"] == "passed" and "tanh" not in done.repro


@pytest.mark.parametrize(
    "script",
    [
        "import os, torch\nos.kill(os.getpid(), 11)\n",
        "import torch\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x + 1\n\n"
        "f(torch.ones(2))\nraise ValueError('mine')\n",
    ],
    ids=["a death", "an exception after a graph"],
)
def test_a_failure_that_eager_mode_shows_too(minify, script):
    done = minify(script)
    assert done.code == 1 and not done.out.exists() and "by itself" in done.stderr


@pytest.mark.soak
def test_a_script_that_fails_further_on_in_eager_mode(minify):
    """The failure of torch.compile comes first, so it is reduced without what follows it."""
    done = minify(script("raise IndexError('no row 3')") + "    raise ValueError('mine')\n")
    assert done.code == 0, done.stderr
    assert "IndexError" in done.repro and "mine" not in done.repro
    assert done.result["verified"]["control"] == "passed"


NEEDS_A_FILE = script("raise IndexError('no row 3')").replace(
    'print("started")', 'if not os.path.exists("rows.txt"):\n        raise RuntimeError("where is rows.txt?")'
)


def test_a_script_that_needs_a_file_is_kept(minify, project):
    """In an empty folder it would fail in any mode, and that is not its failure."""
    project.write("3", "rows.txt")
    done = minify(NEEDS_A_FILE)
    assert done.code == 4, done.stderr
    assert (done.out / "unverified.py").read_text() == (project.folder / "failing.py").read_text()
    assert done.result["status"] == "no-repro" and "no row 3" in done.result["failure"]["message"]


FLAGGED = '''
    import sys

    import torch


    def half_off(x):
        return torch.relu(x) + 0.5


    def flagged(gm, inputs):
        """Is wrong at relu if the script sets a flag, which no graph shows."""
        for node in gm.graph.nodes:
            if node.target is torch.relu and getattr(sys.modules["__main__"], "FLAG", False):
                node.target = half_off
        gm.recompile()
        return gm.forward
'''
CHECKS = """
    import torch
    from backend_with_a_flag import flagged

    FLAG = True


    def fn(x):
        return torch.relu(torch.sin(x)) * 3


    x = torch.rand(4, 4)
    out = torch.compile(fn, backend=flagged)(x)
    {check}
"""


def test_a_wrong_result_that_no_graph_shows_again_is_shown_by_the_scripts_own_check(minify, project):
    project.write(FLAGGED, "backend_with_a_flag.py")
    done = minify(CHECKS.format(check='assert torch.allclose(out, fn(x)), "wrong values"'))
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source"
    assert "assert torch.allclose" in done.repro and done.result["verified"]["control"] == "passed"


@pytest.mark.soak
def test_without_a_check_there_is_no_repro_of_such_a_result(minify, project):
    project.write(FLAGGED, "backend_with_a_flag.py")
    done = minify(CHECKS.format(check="print(out.sum())"))
    assert done.code == 4, done.stderr
