"""What is seen on a terminal, and what programs read."""

import json
import os
import pty
import re
import subprocess
import sys
import zipfile

import pytest
from vocabulary import Project

pytestmark = pytest.mark.timeout(150)

FAILING = """
import torch
import oddlib

print("of the script")
with torch.no_grad():
    torch.compile(lambda x: ((x.sin() + 1).cos() * 2).tanh().cos().sin(), backend="oddlib_tanh")(torch.randn(8, 8))
"""
NEEDS_VALUES = """
import torch

def exact(gm, inputs):
    def run(x):
        if torch.equal(x, torch.linspace(0, 1, 4096).sin()):
            raise LookupError("these very values")
        return gm(x)
    return run

torch.compile(lambda x: x.exp(), backend=exact)(torch.linspace(0, 1, 4096).sin())
"""
COLOUR = re.compile(r"\x1b\[\d*m")


def on_a_terminal(project: Project, *arguments: str, answers: str = "", **environment: str) -> tuple[int, str]:
    """(exit code, what was written to it) of a command whose standard files are a terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(project.folder)
        command = [sys.executable, "-m", "minifier", *arguments]
        os.execve(command[0], command, {**project.environment(**environment), "TERM": "xterm"})
    seen = b""
    os.write(terminal, answers.encode())
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_progress_and_colours(project, no_colour):
    project.write(FAILING)
    code, seen = on_a_terminal(
        project, "run", "--verify", "1", "--out", str(project.out), "failing.py", NO_COLOR=no_colour
    )
    assert code == 0 and "of the script" in seen
    assert "ops left, " in seen and "\r\x1b[K" in seen
    assert bool(COLOUR.search(seen)) is not bool(no_colour)
    assert COLOUR.sub("", seen).strip().splitlines()[-1] == str(project.out / "repro.py")


@pytest.mark.parametrize("answer", ["y", "n"])
def test_values_are_asked_for(project, answer):
    project.write(NEEDS_VALUES)
    arguments = ["run", "--verify", "1", "--out", str(project.out), "failing.py"]
    code, seen = on_a_terminal(project, *arguments, answers=f"{answer}\n")
    assert code == 0, seen
    assert "real values of" in seen and "Put inputs.safetensors into bundle.zip" in seen
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert ("inputs.safetensors" in bundle.namelist()) is (answer == "y")


def test_for_programs_and_for_the_curious(minify):
    done = minify(FAILING, given=["--json", "--verbose"])
    lines = done.stdout.splitlines()
    assert lines[0] == "of the script" and json.loads(lines[-1]) == done.result
    probes = [line for line in done.says if line.startswith("probe ")]
    assert len(probes) == done.result["probes"]["total"]
    assert re.fullmatch(r"probe 1: check, \d+ ops: SAME in [\d.]+ s", probes[0]) and not COLOUR.search(done.stderr)


def test_programs_are_told_why_there_is_no_result(minify):
    done = minify("print('nothing here')", given=["--json"])
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.code == 1 and told["status"] == "nothing" and told["reason"] in done.stderr


def test_completion(project):
    words = {"COMP_WORDS": "minify ru", "COMP_CWORD": "1", "_MINIFY_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-m", "minifier"],
        env=project.environment(**words),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "plain,run", done.stderr


@pytest.mark.parametrize("command", ["run", "reduce", "check", "report", "backends", "passes"])
def test_help_is_there(project, command):
    done = project.minify(command, "--help")
    assert done.code == 0 and "Usage: minify" in done.stdout
