"""What cannot be worked on: the exit code says so, one message says why, and nothing is left behind."""

import json
import os
import shutil

import pytest
from case_samples import small_case
from vocabulary import tree

from minifier.data.case.store import save
from minifier.flow.cli.entry import command_line

pytestmark = pytest.mark.timeout(120)


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
    ],
)
def test_a_script_that_is_none(refusing, name, content):
    path = refusing.folder / name
    if content == "/":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    refused(refusing.minify("run", "--out", refusing.out, name), 2, name)


@pytest.mark.parametrize(
    "given",
    [
        "--match ([",
        "--match-log ([",
        "--timeout soon",
        "--timeout -3",
        "--workers 0",
        "--max-probes -1",
        "--graph 0",
        "--graph 2 --all",
        "--memory lots",
        "--no-such-option",
        "--compare sometimes",
        "--rtol 0.1",
        "--atol 0.1",
        "--rtol -1 --atol 0",
        "--ignore colour",
        "--passes sizes,speed",
        "--skip-pass size",
        "--predicate gone.py",
        "--predicate .",
        "--predicate failing.txt",
        "--predicate other.py",
        "--predicate mine.py --rtol 1 --atol 1",
    ],
)
def test_a_bad_option(refusing, given):
    refusing.write("def (\n", "failing.txt")
    refusing.write("def differ(compiled, eager):\n    return ''\n", "other.py")
    refusing.write("def differs(compiled, eager):\n    return ''\n", "mine.py")
    done = refusing.run("print('it ran')\n", given=given.split())
    refused(done, 2, given.split()[0].strip("-"))
    assert "it ran" not in done.stdout


def test_an_option_after_the_script_is_the_scripts(project):
    project.write("import sys\nprint(sys.argv[1:])\n")
    done = project.minify("run", "--out", project.out, "failing.py", "--json", "--level=hard", "--epochs", "1")
    assert done.stdout == "['--json', '--level=hard', '--epochs', '1']\n"
    assert "--json" in done.stderr and "--level" in done.stderr


def test_no_arguments_at_all(refusing):
    done = refusing.minify("run")
    assert done.code == 2 and "SCRIPT" in done.stderr
    assert refusing.minify("no-such-command").code == 2


@pytest.mark.parametrize("given", [(), ("--no-such-option", "repro.py"), ("--timeout", "x", "repro.py"), ("gone.py",)])
def test_git_bisect_takes_no_error_of_check_for_a_commit(refusing, given):
    """Git takes 1 to 127 for a commit with the failure, but for 125; from 128 on it stops."""
    assert refusing.minify("check", *given).code == 128


def test_git_bisect_takes_no_crash_of_check_for_a_commit(monkeypatch):
    monkeypatch.setattr("minifier.flow.cli.checking.check_command", lambda *_: 1 / 0)
    assert command_line(["check", "repro.py"]) == 128
    monkeypatch.setattr("minifier.flow.cli.checking.check_command", lambda *_: 1)
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


def test_an_output_folder_that_cannot_be_made(project):
    """Not even root can make a folder in /proc."""
    project.write("import torch\nimport oddlib\ntorch.compile(torch.tanh, backend='oddlib_tanh')(torch.ones(2))\n")
    done = project.minify("run", "--out", "/proc/minify", "failing.py")
    assert done.code == 2, done.stderr
    assert "/proc" in done.stderr and "Traceback" not in done.stderr


# Scripts without a failure to reduce, and what is named of each.
NOTHING = {
    "own error": ("import torch\nraise KeyError('mine')\n", "KeyError: 'mine'"),
    "own exit": ("import torch, sys\nsys.exit(9)\n", "status 9"),
    "own death": ("import os\nos.kill(os.getpid(), 9)\n", "signal 9"),
    "own os._exit": (
        "import os, torch\ntorch.compile(torch.sin, backend='eager')(torch.ones(2))\nos._exit(0)\n",
        "status 0",
    ),
    "a line in the log": (
        "import torch\nimport oddlib.deadly\n"
        "torch.compile(torch.tanh, backend='oddlib_grumbles', options={'how': 'ERROR'})(torch.ones(2))\n",
        "--match-log",
    ),
    "unknown backend": ("import torch\ntorch.compile(torch.sin, backend='inductr')(torch.ones(2))\n", "inductor"),
    "a graph that the backend gives back": (
        "import torch\nfrom torch._dynamo.exc import SkipFrame\n"
        "def backend(gm, inputs):\n    raise SkipFrame('not for me')\n"
        "torch.compile(torch.sin, backend=backend)(torch.ones(2))\n",
        "SkipFrame",
    ),
    "processes that the script starts": (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import time; [None for _ in range(10**8)]; 1 / 0'], check=True)\n",
        "other processes",
    ),
    "wrong in eager": (
        "import torch\nimport oddlib\n"
        "f = torch.compile(lambda x, i: torch.gather(x, 0, i) * 2, backend='oddlib_tanh')\n"
        "f(torch.ones(3), torch.tensor([7]))\n",
        "without the backend",
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_script_with_nothing_to_reduce(minify, name):
    script, said = NOTHING[name]
    done = minify(script)
    with_traceback = ("own error", "unknown backend", "wrong in eager", "processes that the script starts")
    refused(done, 1, said, traceback=name in with_traceback)
    if name != "wrong in eager":  # there, what is called is the watched function
        assert "minifier/" not in done.stderr, "frames of this tool in the script's traceback"


def test_a_module_that_does_not_exist(project):
    done = project.minify("run", "--out", project.out, "-m", "surely.missing")
    assert done.code in (1, 2) and "surely" in done.stderr and not project.out.exists()
    assert "minifier/" not in done.stderr


def test_a_graph_that_did_not_fail_cannot_be_chosen(minify):
    script = "import torch\nimport oddlib\ntorch.compile(torch.tanh, backend='oddlib_tanh')(torch.ones(2))\n"
    refused(minify(script, given=["--graph", "5"]), 2, "graph 5", traceback=True)


@pytest.fixture
def case(tmp_path):
    (tmp_path / "project").mkdir(exist_ok=True)
    save(small_case(), tmp_path / "project" / "case")
    return tmp_path / "project" / "case"


def damage(case, what):
    if what == "gone":
        shutil.rmtree(case)
    elif what == "a file":
        shutil.rmtree(case)
        case.write_text("not a folder")
    elif what == "empty":
        shutil.rmtree(case)
        case.mkdir()
    elif what == "truncated":
        text = (case / "graph.json").read_text()
        (case / "graph.json").write_text(text[: len(text) // 2])
    elif what == "version":
        data = json.loads((case / "case.json").read_text())
        (case / "case.json").write_text(json.dumps({**data, "version": 99}))
    elif what == "tensors":
        data = json.loads((case / "case.json").read_text())
        data["inputs"][0]["source"] = {"is": "Stored", "key": "x"}
        data["tensors"] = "tensors.safetensors"
        (case / "case.json").write_text(json.dumps(data))
        (case / "tensors.safetensors").write_bytes(os.urandom(64))


@pytest.mark.parametrize("what", ["gone", "a file", "empty", "truncated", "version", "tensors"])
def test_a_broken_case_folder(refusing, case, what):
    damage(case, what)
    refused(refusing.minify("reduce", "--out", refusing.out, case), 2, str(case))


def test_a_case_whose_backend_is_not_there(project, case):
    data = json.loads((case / "case.json").read_text())
    data["backend"]["imports"] = ["import surely_missing_module"]
    (case / "case.json").write_text(json.dumps(data))
    done = project.minify("reduce", "--trust", "--out", project.out, case)
    assert done.code == 4 and "surely_missing_module" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_case_whose_failure_is_gone(project, case):
    data = json.loads((case / "case.json").read_text())
    data["backend"].update(imports=[], expression="'eager'", name="eager", options=None)
    (case / "case.json").write_text(json.dumps(data))
    done = project.minify("reduce", "--trust", "--out", project.out, case)
    assert done.code == 4 and "Traceback" not in done.stderr


def test_a_script_in_the_place_of_a_command(refusing):
    refusing.write("import torch")
    done = refusing.minify("failing.py", "--epochs", "1")
    refused(done, 2, "minify run failing.py --epochs 1")
