"""A script that asks the terminal: its second run, whose output is dropped, has one of the same size."""

import pytest
from screens import in_a_terminal

pytestmark = pytest.mark.timeout(200)

BACKEND = """
def wrong(gm, inputs):
    return lambda *args: tuple(result * 1.5 for result in gm.forward(*args))
"""
SCRIPT = """
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
    project.write(BACKEND, "scaling.py")
    project.write(SCRIPT)
    shown = in_a_terminal(project, "run", "--verify", "1", "--out", "../out", "failing.py", columns=90)
    assert shown.code == 0, shown.rows
    bars = shown.written.count("a bar of the width")  # a status line may be drawn in the middle of one
    assert 2900 < bars <= 3000, "of the first run alone"
