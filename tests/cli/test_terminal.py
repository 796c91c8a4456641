"""What is seen on a terminal and in a pipe, and what programs read."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import zipfile

import pytest
from clock import LIMIT_SECONDS, Limit
from failing_scripts import ONE_OP, OPS
from layers import sampled
from screens import Shown, in_a_terminal, set_size

pytestmark = pytest.mark.timeout(150)

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
COLOUR = re.compile(r"\x1b\[[1-9][\d;]*m")


SCALING = """
def wrong(gm, inputs):
    return lambda *args: tuple(result * 1.5 for result in gm.forward(*args))
"""
ASKS = """
import os
import sys
import torch
import scaling

columns = os.get_terminal_size().columns
assert sys.stdout.isatty() and sys.stderr.isatty() and columns == 90
for number in range(3000):
    print("a bar of the width of the window ".ljust(columns - 1, "#"))
torch.compile(lambda x: torch.sin(x) + 1, backend=scaling.wrong)(torch.ones(4))
"""


@pytest.mark.soak
def test_a_script_that_needs_a_terminal_has_one_in_each_run(project):
    """That of the second run, whose output is dropped, has the same size."""
    project.write(SCALING, "scaling.py")
    project.write(ASKS)
    shown = in_a_terminal(project, "run", "--verify", "1", "--out", "../out", "failing.py", columns=90)
    assert shown.code == 0, shown.rows
    bars = shown.written.count("a bar of the width")  # a status line may be drawn in the middle of one
    assert 2900 < bars <= 3000, "of the first run alone"


ERASED = "\x1b[J\x1b8"  # the last of what removes the status line
STOPPED = """
import os
import signal
from minifier.flow.cli.console import Console
from minifier.process.forked_step import run_step
from minifier.process.progress import Phase, Progress

os.setpgrp()  # as a shell does: the group of pytest may be orphaned, and is never stopped then


def work():
    return signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL

with Console() as console:
    console.show(Progress(Phase.REPORTS))
    if run_step(work).status:
        raise SystemExit("the script has a handler of ours")
    os.kill(os.getpid(), signal.SIGTSTP)
    console.show(Progress(Phase.VERIFYING))
raise SystemExit(7)
"""


def feed_until(shown, terminal, text, times):
    """Show what is written until the text was written so many times."""
    limit = Limit(LIMIT_SECONDS)
    while shown.written.count(text) < times:
        assert select.select([terminal], [], [], limit.rest)[0], shown.written
        shown.feed(os.read(terminal, 4096))


def test_ctrl_z_gives_the_shell_the_whole_screen(project):
    shown = Shown(60, 10)
    terminal, of_process = pty.openpty()
    set_size(terminal, shown.lines, shown.columns)
    command = [sys.executable, "-c", STOPPED]
    environment = project.environment(TERM="xterm")
    process = subprocess.Popen(command, env=environment, stderr=of_process)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        feed_until(shown, terminal, ERASED, times=1)
        assert shown.statuses == ["minify: writing the reports"] and shown.rows == []
        assert shown.screen.margins is None
        os.kill(process.pid, signal.SIGCONT)
        feed_until(shown, terminal, ERASED, times=2)
        assert process.wait(60) == 7
        assert shown.statuses[-1] == "minify: verifying the repro" and shown.rows == []
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(of_process)


def test_the_status_line_ends_with_a_killed_run(project):
    project.write("import signal\nprint('begun', flush=True)\nsignal.pause()")

    sent = []

    def meanwhile(shown, terminal):
        if not sent and "begun" in shown.rows and shown.screen.margins is not None:
            sent.append(os.kill(shown.pid, signal.SIGTERM))

    shown = in_a_terminal(project, "run", "failing.py", meanwhile=meanwhile)
    assert shown.code == 128 + signal.SIGTERM and shown.screen.margins is None
    assert [row[:24] for row in shown.rows] == ["begun", "minify: ended by SIGTERM"]


@pytest.mark.soak
@pytest.mark.parametrize("answer", ["y", "n"])
def test_values_are_asked_for(project, answer):
    project.write(NEEDS_VALUES)
    arguments = ["run", "--verify", "1", "--out", str(project.out), "failing.py"]
    question = "minify: Put inputs.safetensors into bundle.zip, for those who get that? [y/N]:"

    def meanwhile(shown, terminal):
        if shown.rows[-1:] == [question]:
            os.write(terminal, f"{answer}\n".encode())

    shown = in_a_terminal(project, *arguments, meanwhile=meanwhile)
    assert shown.code == 0 and f"{question} {answer}" in shown.rows, shown.rows
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert ("inputs.safetensors" in bundle.namelist()) is (answer == "y")


def test_for_programs_and_for_the_curious(project):
    done = project.run(f"print('of the script')\n{ONE_OP}", given=["--json", "--verbose"])
    lines = done.stdout.splitlines()
    assert lines[0] == "of the script" and json.loads(lines[-1]) == done.result
    probes = [line for line in done.says if line.startswith("probe ")]
    assert len(probes) == done.result["probes"]["total"]
    assert re.fullmatch(rf"probe 1: check, {OPS} ops: SAME in [\d.]+ s", probes[0]) and not COLOUR.search(done.stderr)


COMPILED = "import torch\n\n\n@torch.compile(backend={backend!r})\ndef f(x):\n    return x.sin()\n\n\n{call}\n"


@pytest.mark.parametrize(
    ("script", "cause"),
    sampled(
        [
            ("print('nothing here')", "nothing-compiled"),
            (COMPILED.format(backend="eager", call="f(torch.ones(2))"), "nothing-failed"),
            (COMPILED.format(backend="eager", call="f(torch.ones(2)) + torch.ones(3)"), "fails-by-itself"),
            (COMPILED.format(backend="egaer", call="f(torch.ones(2))"), "no-such-backend"),
            (
                COMPILED.format(backend="eager", call="import sys; f(torch.ones(2)); assert 'minifier' in sys.modules"),
                "fails-unobserved",
            ),
        ],
        3,
    ),
)
def test_programs_are_told_why_there_is_no_result(minify, script, cause):
    done = minify(script, given=["--json"])
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.code == 1 and (told["status"], told["cause"]) == ("nothing", cause) and told["reason"] in done.stderr


def test_completion(project):
    project.write("raise ImportError('torch was imported')", "torch.py")
    words = {"COMP_WORDS": "minify run --backend faulty_i", "COMP_CWORD": "3", "_MINIFY_COMPLETE": "bash_complete"}
    done = project.python("-m", "minifier", timeout=60, path=(project.folder,), **words)
    assert done.stdout.strip() == "plain,faulty_installed", done.stderr
