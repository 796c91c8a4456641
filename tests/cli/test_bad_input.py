"""What cannot be worked on: the exit code says so, one message says why, and nothing is left behind."""

import json
import shutil

import pytest
from case_samples import small_case
from vocabulary import tree

from minifier.data.case.store import save
from minifier.flow.cli.entry import command_line

pytestmark = pytest.mark.timeout(120)

FAILING = "import torch\nimport oddlib\ntorch.compile(torch.tanh, backend='oddlib_tanh')(torch.ones(2))\n"


def refused(done, code, *texts, traceback=False):
    assert done.code == code, done.stderr
    assert done.says or done.stderr.startswith("Usage"), done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr
    assert ("Traceback" in done.stderr) is traceback, done.stderr
    assert not done.out.exists() or not list(done.out.iterdir()), "something was left in the output folder"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gone.py", None),
        ("folder", "/"),
        ("bad.py", b"def f(:\n"),
        ("null.py", b"x = 1\x00\n"),
        ("latin.py", b"x = '\xe9'\n"),
        ("data.bin", b"\x7fELF\x02\x01\x01\x00"),
        ("gone/and/gone.py", None),
        ("model", None),
    ],
)
def test_a_script_that_is_none(refusing, name, content):
    path = refusing.folder / name
    if content == "/":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    refusing.write("", "model.py")
    refused(refusing.minify("run", "--out", refusing.out, name), 2, f"{name}.py" if name == "model" else name)


BAD_OPTIONS = (
    "--match ([", "--match-log ([", "--timeout soon", "--timeout -3", "--workers 0", "--max-probes -1", "--graph 0",
    "--graph 2 --all", "--memory lots", "--no-such-option", "--compare sometimes", "--rtol 0.1", "--atol 0.1",
    "--rtol -1 --atol 0", "--ignore colour", "--passes sizes,speed", "--skip-pass size", "--predicate gone.py",
    "--predicate .", "--predicate failing.txt", "--predicate other.py", "--predicate mine.py --rtol 1 --atol 1",
    "--import compilers", "--backend gone:compiler", "--backend x-y:compiler", "--backend eager --level source",
)  # fmt: skip


@pytest.mark.parametrize("given", BAD_OPTIONS)
def test_a_bad_option(refusing, given):
    refusing.write("def (\n", "failing.txt")
    refusing.write("def differ(compiled, eager):\n    return ''\n", "other.py")
    refusing.write("def differs(compiled, eager):\n    return ''\n", "mine.py")
    done = refusing.run("print('it ran')\n", given=given.split())
    option, *values = given.split()
    refused(done, 2, values[0].partition(":")[0] if ":compiler" in given else option.strip("-"))
    assert "it ran" not in done.stdout


def test_no_arguments_at_all(refusing):
    done = refusing.minify("run")
    assert done.code == 2 and "SCRIPT" in done.stderr
    assert refusing.minify("no-such-command").code == 2


@pytest.mark.parametrize("given", [(), ("--no-such-option", "repro.py"), ("--timeout", "x", "repro.py"), ("gone.py",)])
def test_git_bisect_takes_no_error_of_check_for_a_commit(refusing, given):
    """Git takes 1 to 127 for a commit with the failure, but for 125; from 128 on it stops."""
    assert refusing.minify("check", *given).code == 128


def test_git_bisect_takes_no_crash_of_check_for_a_commit(monkeypatch):
    monkeypatch.setattr("minifier.flow.cli.running.check_command", lambda *_: 1 / 0)
    assert command_line(["check", "repro.py"]) == 128
    monkeypatch.setattr("minifier.flow.cli.running.check_command", lambda *_: 1)
    assert command_line(["check", "repro.py"]) == 1


@pytest.mark.parametrize("what", ["not empty", "a file", "below a file"])
def test_an_output_folder_that_is_none(refusing, what):
    out = refusing.out
    if what == "not empty":
        out.mkdir()
        (out / "notes.txt").write_text("mine")
    elif what == "a file":
        out.write_text("mine")
    else:
        out = refusing.write("mine", "notes.txt") / "out"
    refusing.write("import torch\n")
    before = tree(refusing.root)
    done = refusing.minify("run", "--out", out, "failing.py")
    named = out.parent if what == "below a file" else out
    assert done.code == 2 and str(named) in done.stderr and "Traceback" not in done.stderr
    assert tree(refusing.root) == before


def test_a_module_that_does_not_exist(project):
    done = project.minify("run", "--out", project.out, "-m", "surely.missing")
    assert done.code in (1, 2) and "surely" in done.stderr and not project.out.exists()
    assert "minifier/" not in done.stderr


def test_a_graph_that_did_not_fail_cannot_be_chosen(minify):
    refused(minify(FAILING, given=["--graph", "5"]), 2, "graph 5", traceback=True)


@pytest.fixture
def case(tmp_path):
    (tmp_path / "project").mkdir(exist_ok=True)
    save(small_case(), tmp_path / "project" / "case")
    return tmp_path / "project" / "case"


def change(case, **values):
    """Give parts of case.json other values; a part that is a dict keeps its other values."""
    data = json.loads((case / "case.json").read_text())
    merged = {name: {**data[name], **new} if isinstance(new, dict) else new for name, new in values.items()}
    (case / "case.json").write_text(json.dumps({**data, **merged}))


DAMAGES = {
    "gone": shutil.rmtree,
    "a file": lambda case: (shutil.rmtree(case), case.write_text("not a folder")),
    "empty": lambda case: (shutil.rmtree(case), case.mkdir()),
    "version": lambda case: change(case, version=99),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_case_folder(refusing, case, damage):
    DAMAGES[damage](case)
    refused(refusing.minify("reduce", "--out", refusing.out, case), 2, str(case))


def test_a_case_whose_backend_is_not_there(project, case):
    change(case, backend={"imports": ["import surely_missing_module"]})
    done = project.minify("reduce", "--trust", "--out", project.out, case)
    assert done.code == 4 and "surely_missing_module" in done.stderr and "Traceback" not in done.stderr


def test_a_script_in_the_place_of_a_command(refusing):
    refusing.write("import torch")
    done = refusing.minify("failing.py", "--epochs", "1")
    refused(done, 2, "minify run failing.py --epochs 1")
