"""The line that Dynamo failed at is followed through edits."""

import pytest

from minifier.reduction.probe.children import ChildEnd
from minifier.repro.source.conditions import SameLine, SourceRun

SCRIPT = """\
def helper(x):
    return torch.nonzero(x)

def f(x, y):
    if x.sum() > 0:
        x = x + 1
    z = helper(x)  # the mask
    return torch.unique(y), z
"""


def failing_at(source, line):
    message = f'Unsupported\n\nfrom user code:\n   File "definitions.py", line 5, in f\n    {line}\n'
    end = ChildEnd({"status": "fail", "links": [{"message": message, "frames": []}]}, 1.0)
    return SourceRun(source, end)


def followed(line, *edits):
    """Apply (old, new, line at which it fails then) to the script; return whether each is the same failure."""
    condition, source = SameLine(failing_at(SCRIPT, line)), SCRIPT
    answers = []
    for old, new, at in edits:
        edited = source.replace(old, new)
        assert edited != source
        run = failing_at(edited, at)
        answers.append(condition.holds(run))
        if answers[-1]:
            condition.accept(run)
            source = edited
    return answers


UNIQUE, BRANCH = "return torch.unique(y), z", "if x.sum() > 0:"


@pytest.mark.parametrize(
    ("line", "edits", "answers"),
    [
        (UNIQUE, [("    if x.sum() > 0:\n        x = x + 1\n", "", UNIQUE)], [True]),
        (UNIQUE, [(f"    {UNIQUE}\n", "", "return torch.nonzero(x)")], [False]),
        (UNIQUE, [("    z = helper(x)  # the mask\n", "", "if x.sum() > 0:")], [False]),
        (UNIQUE, [(", z\n", "\n", "return torch.unique(y)")], [True]),
        (UNIQUE, [(", z\n", "\n", "return torch.unique(y)"), ("torch.unique(y)", "y", BRANCH)], [True, False]),
        (BRANCH, [("x.sum() > 0", "x", "if x:"), ("if x:", "if 1:", "return torch.nonzero(x)")], [True, False]),
        (
            "return torch.nonzero(x)",
            [("    z = helper(x)  # the mask\n", "    z = torch.nonzero(x)\n", "z = torch.nonzero(x)")],
            [False],  # the line is still there
        ),
        ("return torch.nonzero(x)", [(SCRIPT[:44], "", "z = helper(x)  # the mask")], [False]),
    ],
)
def test_the_line_is_followed_through_edits(line, edits, answers):
    assert followed(line, *edits) == answers


def test_a_function_in_the_place_of_its_call():
    condition = SameLine(failing_at(SCRIPT, "return torch.nonzero(x)"))
    inlined = SCRIPT[43:].replace("helper(x)", "torch.nonzero(x)")
    assert condition.holds(failing_at(inlined, "z = torch.nonzero(x)  # the mask"))
    assert not condition.holds(failing_at(inlined, "if x.sum() > 0:"))
