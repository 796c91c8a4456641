"""Real commands on one's own and on somebody else's files: what runs, what is asked, what is refused."""

import json
import os
import shutil
import zipfile

import pytest
from failing_scripts import ONE_OP
from layers import sampled
from screens import in_a_terminal
from vocabulary import tree

from minifier.flow.foreign_code import foreign_code_in

pytestmark = pytest.mark.timeout(150)

REPRO = """\
open({canary!r}, "a").close()
raise RuntimeError("no lowering for tanh")

# RuntimeError: no lowering for tanh
# torch 2.13.0, Python 3.11
"""
BRIEFLY = ("--max-probes", "0", "--verify", "1")


def changed(case, canary, **fields):
    """Put definitions that write a file into the Case, as somebody would who got it and sends it back."""
    path = case / "case.json"
    data = json.loads(path.read_text())
    definitions = f"open({str(canary)!r}, 'a').close()\n{data.get('definitions', '')}"
    path.write_text(json.dumps({**data, "definitions": definitions, **fields}, indent=1))


@pytest.fixture
def case(project, bureau):
    bureau.capture(ONE_OP)
    return bureau.graphs / "1"


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"


def test_a_case_that_was_edited_needs_one(project, case, canary):
    changed(case, canary)
    before = tree(case)
    refused = project.minify("reduce", "--out", project.out, case)
    assert refused.code == 2 and tree(case) == before and not canary.exists() and not project.out.exists()
    assert "--trust" in refused.stderr and str(case / "case.json") in refused.stderr

    done = project.minify("reduce", *BRIEFLY, "--trust", "--out", project.out, case)
    assert done.code == 3 and canary.exists()
    assert foreign_code_in(project.out) == [], "what is made with --trust is one's own"


def test_ones_own_repro_and_bundle_are_checked_at_once(project, tmp_path):
    done = project.run(ONE_OP)
    assert done.code == 0 and len(done.result["mark"]) == 64
    bundle = shutil.copy(project.out / "bundle.zip", tmp_path / "moved.zip")
    assert project.minify("check", bundle).code == 1
    assert project.minify("check", project.out).code == 1
    with zipfile.ZipFile(bundle) as entries:
        entries.extractall(tmp_path / "unpacked")
        assert "mark" not in json.loads(entries.read("minimal/case.json"))
    # Its Case lacks what is private, so it is another, but none of it is run.
    assert project.minify("check", "--trust", tmp_path / "unpacked").code == 1

    with (project.out / "repro.py").open("a") as file:
        file.write("# changed\n")
    refused = project.minify("check", project.out)
    assert refused.code == 128 and str(project.out / "repro.py") in refused.stderr
    for command in (("test", "-o", "tests"), ("explain",)):
        refused = project.minify(command[0], project.out, *command[1:])
        assert refused.code == 2 and str(project.out / "repro.py") in refused.stderr
    assert project.minify("check", project.out / "repro.py").code == 1, "a script that the user names"
    assert project.minify("report", project.out).code == 0
    assert project.minify("check", project.out / "bundle.zip").code == 128, "a report vouches for nothing"


def test_a_bundle_of_somebody_else(project, canary):
    bundle = project.folder / "bundle.zip"
    with zipfile.ZipFile(bundle, "w") as entries:
        entries.writestr("repro.py", REPRO.format(canary=str(canary)))
    refused = project.minify("check", bundle)
    assert refused.code == 128 and str(bundle) in refused.stderr and "--trust" in refused.stderr
    assert not canary.exists()
    done = project.minify("check", "--trust", bundle)
    assert done.code == 1 and canary.exists() and f"running the repro {bundle}" in done.stderr


@pytest.mark.parametrize("answer", sampled(["y", "n"], 2))
def test_the_question_on_a_terminal(project, canary, answer):
    project.write(REPRO.format(canary=str(canary)), "repro.py")

    def meanwhile(shown, terminal):
        if shown.rows[-1:] == ["Run it? [y/N]:"]:
            os.write(terminal, f"{answer}\n".encode())

    shown = in_a_terminal(project, "check", ".", meanwhile=meanwhile)
    assert shown.code == (1 if answer == "y" else 128) and canary.exists() is (answer == "y")
    assert f"Run it? [y/N]: {answer}" in shown.rows


def test_a_quiet_terminal_is_not_asked(project, case, canary):
    changed(case, canary)
    shown = in_a_terminal(project, "reduce", "--quiet", "--out", "../out", str(case))
    assert shown.code == 2 and "Run it?" not in shown.written and not canary.exists()
