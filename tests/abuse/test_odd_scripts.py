"""Scripts that do odd things: `minify run` ends as documented, the script prints what it prints under plain Python."""

import os
import subprocess
import threading

import pytest
from aftermath import World, fails_alone
from layers import SOAK
from odd_scripts import FAILS, SCRIPTS, SPAWNS, OddScript
from vocabulary import Project, source_of

pytestmark = [pytest.mark.timeout(200), pytest.mark.usefixtures("processes")]

PLAIN = f"import torch\nimport oddlib\n{FAILS}"


@pytest.mark.parametrize(
    "script", [pytest.param(each, id=each.name, marks=[SOAK] * each.is_in_soak) for each in SCRIPTS]
)
def test_a_script_that(project: Project, script: OddScript):
    world = World(project)
    project.write(script.source)
    process = project.start_warm("run", "--verify", "1", *script.given, "--out", project.out, "failing.py")
    code = process.wait(150)
    out, err = process.communicate()
    assert world.left() == ()
    assert code == script.code, err
    assert out == script.output and script.says in err
    if script.code == 0:
        assert "from 3 ops to 1, minimal; " in err, err
        assert fails_alone(world)


@pytest.mark.usefixtures("soak")
def test_a_script_that_spawns_processes(project: Project):
    world = World(project)
    project.write(SPAWNS)
    ended = world.run("run", "--verify", "1", "--out", project.out, "failing.py")
    assert (ended.code, ended.out, ended.left) == (0, b"[2, 4]\n", ()), ended.err


def test_a_script_by_a_symbolic_link(project: Project):
    world = World(project)
    (project.folder / "real").mkdir()
    project.write("NAME = 1\n", "real/helper_of_link.py")
    project.write(f"import helper_of_link\nprint(__file__)\n{PLAIN}", "real/failing.py")
    (project.folder / "link.py").symlink_to("real/failing.py")
    process = project.start_warm("run", "--verify", "1", "--out", project.out, "link.py")
    code = process.wait(150)
    out, err = process.communicate()
    assert (code, out, world.left()) == (0, f"{project.folder}/link.py\n", ()), err
    assert fails_alone(world)


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_script_from_dev_stdin(project: Project, is_pipe: bool):
    """A pipe can be read once, and a run reads its script several times."""
    world = World(project)
    path = project.root / "script.txt"
    path.write_text(source_of(PLAIN))
    if is_pipe:
        read, write = os.pipe()
        threading.Thread(target=lambda: (os.write(write, path.read_bytes()), os.close(write))).start()
    else:
        read = os.open(path, os.O_RDONLY)
    ended = world.run("run", "--verify", "1", "--out", project.out, "/dev/stdin", stdin=read)
    assert (ended.code, ended.left) == (0, ()), ended.err
    assert fails_alone(world)


NAMES = ['it\'s "quoted".py', "two\nlines.py", "-dash.py", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n.py"]


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_not_plain(project: Project, name: str):
    """In the locale of many containers."""
    world = World(project)
    project.write(PLAIN, name)
    out = project.root / f"out {name}"
    plain = {"LANG": "C", "LC_ALL": "C"}
    ended = world.run("run", "--verify", "1", "--out", out, "--", name, environment=plain)
    assert (ended.code, ended.left) == (0, ()), ended.err
    assert subprocess.run(["cat", out / "repro.py"], capture_output=True, check=True).stdout.isascii()
