"""Scripts and backends that get in the tool's way without meaning to."""

import os
import subprocess
import sys
import zipfile

import pytest

pytestmark = pytest.mark.timeout(150)

CALL = "torch.compile(lambda x: torch.tanh(x + 1) * 2, backend={})(torch.randn(4))\n"
REFUSES = """
import torch


def names(gm):
    return {getattr(node.target, "__name__", node.target) for node in gm.graph.nodes}


def refuse(gm, example_inputs):
    if "tanh" in names(gm):
        raise ValueError("no lowering for tanh")
    return gm.forward
"""
TAKES_ALL = "def refuse(gm, example_inputs):\n    return gm.forward\n"


@pytest.mark.soak
def test_a_copy_beside_the_script_hides_the_installed_backend(project):
    project.write(REFUSES, "devback.py")
    installed = project.root / "installed"
    installed.mkdir()
    (installed / "devback.py").write_text(TAKES_ALL)
    done = project.run("import torch, devback\n" + CALL.format("devback.refuse"), path=[installed])
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1)


def test_a_script_keeps_its_hooks_its_files_and_its_own_path(project):
    log = project.root / "train.log"
    done = project.run(
        f"""
        import os, sys
        import torch, oddlib
        log = open({str(log)!r}, "w")
        log.write("epoch 1")
        os.chdir("/")
        print(os.path.isabs(__file__), os.path.exists(__file__), sys.argv)
        sys.excepthook = lambda *error: sys.exit(7)
        torch.compile(lambda x: torch.tanh(x + 1) * 2, backend="oddlib_tanh")(torch.randn(4))
        """,
        "--lr",
        "3",
    )
    assert done.code == 0, done.stderr
    assert done.stdout == "True True ['failing.py', '--lr', '3']\n"
    assert log.read_text() == "epoch 1"


def test_a_backend_that_exits(project):
    project.write(REFUSES.replace("raise ValueError", "raise SystemExit"), "exits.py")
    done = project.run("import torch, exits\n" + CALL.format("exits.refuse"))
    assert done.code == 0, done.stderr
    assert done.result["failure"]["kind"] == "exit"
    assert done.ops == (3, 1)


def test_no_values_of_the_users_are_in_a_bundle_after_an_early_stop(project):
    done = project.run(
        """
        import torch, oddlib
        secret = torch.arange(400.).reshape(20, 20) + 0.125
        torch.compile(lambda x, w: torch.tanh(x @ w), backend="oddlib_tanh")(torch.rand(4, 20), secret)
        """,
        given=["--max-probes", "1"],
    )
    assert done.code == 3, done.stderr
    with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
        assert not [name for name in bundle.namelist() if name.endswith(".safetensors")]
    assert "safetensors" not in done.repro


@pytest.mark.soak
def test_an_operator_of_a_library_beside_the_script(project):
    project.write(
        """
        import torch

        @torch.library.custom_op("shelf::triple", mutates_args=())
        def triple(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        @triple.register_fake
        def _(x):
            return torch.empty_like(x)
        """,
        "shelf.py",
    )
    project.write(REFUSES.replace('"tanh" in names(gm)', 'any("triple" in str(n) for n in names(gm))'), "picky.py")
    done = project.run(
        """
        import torch, shelf, picky
        torch.compile(lambda x: shelf.triple(torch.sin(x)).cos(), backend=picky.refuse)(torch.randn(4))
        """
    )
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1)
    assert "import shelf\n" in done.repro


def test_a_backend_that_starts_threads_processes_and_prints_when_imported(project):
    project.write(
        "import threading, subprocess\n"
        "print('banner')\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        + REFUSES.replace(
            "def refuse(gm, example_inputs):\n",
            "def refuse(gm, example_inputs):\n"
            "    subprocess.Popen(['sleep', '4711.5'], start_new_session=True, stdout=-3, stderr=-3)\n",
        ),
        "busy.py",
    )
    done = project.run("import torch, busy\nimport os\n" + CALL.format("busy.refuse"))
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1)
    assert done.stdout == "banner\n"
    found = subprocess.run(["pgrep", "-f", "sleep 4711.5"], capture_output=True, text=True, check=False)
    left = found.stdout.split()
    for pid in left:
        os.kill(int(pid), 9)
    assert left == [], "of a script that is run several times nothing may be left behind, nor of the probes"


@pytest.mark.soak
def test_standard_files_may_be_closed(project):
    runs_with_closed_files(project, "<&- >&-")


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize("closing", [">&-", "2>&-"])
def test_one_standard_file_may_be_closed(project, closing):
    runs_with_closed_files(project, closing)


def runs_with_closed_files(project, closing):
    project.write("import torch, oddlib\n" + CALL.format('"oddlib_tanh"'))
    command = f'trap "" CHLD; exec {sys.executable} -m minifier run --verify 1 --out {project.out} failing.py {closing}'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (project.out / "repro.py").exists()
