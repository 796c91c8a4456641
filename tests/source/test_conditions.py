"""The line that Dynamo failed at is followed through edits; the script's backends stay."""

import pytest

from minifier.reduction.probe.children import ChildEnd
from minifier.repro.source.conditions import SameBackends, SameLine, SourceRun
from minifier.repro.source.own_code import code_text, digest, nested_codes

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


UNIQUE = "return torch.unique(y), z"


@pytest.mark.parametrize(
    ("line", "edits", "answers"),
    [
        (UNIQUE, [("    if x.sum() > 0:\n        x = x + 1\n", "", UNIQUE)], [True]),
        (UNIQUE, [(f"    {UNIQUE}\n", "", "return torch.nonzero(x)")], [False]),
        (UNIQUE, [("    z = helper(x)  # the mask\n", "", "if x.sum() > 0:")], [False]),
        (UNIQUE, [(", z\n", "\n", "return torch.unique(y)")], [True]),
        (
            UNIQUE,
            [(", z\n", "\n", "return torch.unique(y)"), ("torch.unique(y)", "y", "if x.sum() > 0:")],
            [True, False],
        ),
        (
            "if x.sum() > 0:",
            [("x.sum() > 0", "x", "if x:"), ("if x:", "if 1:", "return torch.nonzero(x)")],
            [True, False],
        ),
        (
            "return torch.nonzero(x)",
            [("    z = helper(x)  # the mask\n", "    z = torch.nonzero(x)\n", "z = torch.nonzero(x)")],
            [False],  # the line is still there
        ),
        (
            "return torch.nonzero(x)",
            [(SCRIPT[:44], "", "z = helper(x)  # the mask")],
            [False],
        ),
    ],
)
def test_the_line_is_followed_through_edits(line, edits, answers):
    assert followed(line, *edits) == answers


def test_a_function_in_the_place_of_its_call():
    condition = SameLine(failing_at(SCRIPT, "return torch.nonzero(x)"))
    inlined = SCRIPT[43:].replace("helper(x)", "torch.nonzero(x)")
    assert condition.holds(failing_at(inlined, "z = torch.nonzero(x)  # the mask"))
    assert not condition.holds(failing_at(inlined, "if x.sum() > 0:"))


BACKEND = """\
def main():
    def strict(gm, inputs):
        # each node
        return gm
    go(strict)

def strict(): pass
"""


def run_of(source, told):
    return SourceRun(source, ChildEnd({"status": "fail", "links": []}, 1.0, told={"backends": told}))


def digests(source):
    return [digest(code_text(code)) for code in nested_codes(compile(source, "s", "exec"))]


TOLD = {"backends": [("strict", "code", "data")], "places": [["strict", 2]], "ran": [], "reached": [], "files": []}


def guard(second=TOLD):
    return SameBackends(run_of(BACKEND, TOLD), run_of(BACKEND, second))


def test_the_definition_of_a_backend_is_whole_at_any_depth():
    assert guard().whole == ("def strict(gm, inputs):\n    # each node\n    return gm",)


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("return gm", "return 1", False),
        ("        # each node\n", "", False),
        ("    go(strict)\n", "    go(strict)\n    more()\n", True),
        ("def strict(): pass\n", "", True),
        ("    def strict(gm, inputs):\n        # each node\n        return gm\n", "", True),
        ("def main():", "if 1:", True),
    ],
)
def test_the_definition_stays_or_goes(old, new, may):
    assert old in BACKEND and guard().may_hold(BACKEND.replace(old, new)) is may


@pytest.mark.parametrize(
    ("backends", "ran", "holds"),
    [
        ([("strict", "code", "data")], [], True),
        ([], [], True),
        ([("strict", "code", "other")], [], False),
        ([("strict", "code", "data"), ("strict", "code", "other")], [], False),
        ([("inductor", "", "")], [], False),
        ([], digests(BACKEND), True),
        ([], ["unknown"], False),
    ],
)
def test_a_run_has_the_backends_of_the_script(backends, ran, holds):
    assert guard().holds(run_of(BACKEND, {**TOLD, "backends": backends, "ran": ran})) is holds


def test_data_that_differ_by_themselves_do_not_count():
    by_chance = {**TOLD, "backends": [("strict", "code", "other")]}
    assert guard(by_chance).holds(run_of(BACKEND, {**TOLD, "backends": [("strict", "code", "third")]}))
    assert not guard(by_chance).holds(run_of(BACKEND, {**TOLD, "backends": [("strict", "changed", "data")]}))


def test_a_module_in_the_place_of_its_import_brings_its_backend():
    condition = guard()
    inlined = "def strict(gm, inputs):\n    return LIMIT\n"
    run = SourceRun(
        inlined, run_of("", {**TOLD, "backends": [("strict", "new", "new")], "places": [["strict", 1]]}).end, True
    )
    assert condition.holds(run)
    condition.accept(run)
    assert condition.whole == (inlined.strip(),)
    assert not condition.holds(run_of(inlined, TOLD)) and not condition.may_hold(inlined.replace("LIMIT", "1"))
