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


def test_a_death_while_dynamo_traces(minify):
    done = minify(script("os.kill(os.getpid(), 11)"))
    assert done.code == 0, done.stderr
    assert "running it in eager mode" in done.stderr and "by itself" not in done.stderr
    assert done.result["level"] == "source" and done.result["failure"]["kind"] == "signal"
    assert done.result["verified"]["control"] == "passed" and done.result["verified"]["same"] >= 1
    assert "os.kill" in done.repro and "tanh" not in done.repro and "started" not in done.repro


def test_an_exit_while_dynamo_traces(minify):
    done = minify(script("os._exit(7)"))
    assert done.code == 0, done.stderr
    assert (done.result["level"], done.result["failure"]["kind"]) == ("source", "exit")
    assert "os._exit(7)" in done.repro and "tanh" not in done.repro


def test_an_exception_that_no_frame_of_torch_raises(minify):
    """The innermost frame is the script's: the traceback alone looks like the script's own mistake."""
    done = minify(script("raise IndexError('no row 3')"))
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source" and "IndexError" in done.result["failure"]["message"] + done.repro
    assert done.result["verified"]["control"] == "passed" and "tanh" not in done.repro


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import os, torch\nos.kill(os.getpid(), 11)\n", "died of signal 11 outside of any backend call by itself"),
        ("import sys, torch\nsys.exit(9)\n", "ended with exit status 9 by itself, without torch.compile as well"),
        ("import torch\nopen('here.txt')\n", "fails by itself, without torch.compile as well: FileNotFoundError"),
        (
            "import torch\n\n@torch.compile(backend='eager')\ndef f(x):\n    return x + 1\n\n"
            "f(torch.ones(2))\nraise ValueError('mine')\n",
            "fails by itself, without torch.compile as well: ValueError: mine",
        ),
    ],
    ids=["a death", "an exit", "a file that is not there", "after a graph"],
)
def test_a_failure_that_eager_mode_shows_too(minify, script, said):
    done = minify(script)
    assert done.code == 1 and not done.out.exists()
    assert said in done.stderr and "running it in eager mode" in done.stderr


def test_a_script_that_fails_further_on_in_eager_mode(minify):
    """The failure of torch.compile comes first, so it is reduced without what follows it."""
    done = minify(script("raise IndexError('no row 3')") + "    raise ValueError('mine')\n")
    assert done.code == 0, done.stderr
    assert "IndexError" in done.repro and "mine" not in done.repro
    assert done.result["verified"]["control"] == "passed"


def test_files_of_the_scripts_folder_are_there_in_eager_mode(minify, project):
    """In an empty folder it would fail in any mode, and that is not its failure."""
    project.write("3", "rows.txt")
    reading = "x = torch.full((4,), float(open('rows.txt').read()))"
    done = minify(script("raise IndexError('no row 3')").replace("x = torch.ones(4)", reading))
    assert done.code == 4 and not done.out.exists(), done.stderr
    assert "fails with torch.compile, but not in eager mode" in done.stderr and "by itself" not in done.stderr
    assert "absolute paths" in done.stderr
