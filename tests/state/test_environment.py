"""Environment variables that a backend has for itself: what a fresh interpreter gets, and what goes into a repro."""

import json
import zipfile

import pytest
from failing_scripts import CALLS_ACME, REFUSES_WHAT_IT_READ

from minifier.data.case.switches import may_be_set, may_be_written, ordinary, others

pytestmark = pytest.mark.timeout(200)

SHELL = {"PATH": "/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": "/x", "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": "/y"}
NEVER = {"TORCH_LOGS": "+all", "PYTHONHASHSEED": "1"}
OTHERS = {"ACME_FUSE": "1", "OMP_NUM_THREADS": "2", "CUDA_LAUNCH_BLOCKING": "1"}

# A backend with settings, which it reads when it is imported.
ACME = """
import json
import os
import torch

path, token = os.environ.get("ACME_CONFIG"), os.environ.get("ACME_TOKEN", "")
refused = json.load(open(path))["refused"] if path else "tanh" if token.startswith("acme-") else ""
"""
ACME += REFUSES_WHAT_IT_READ
TOKEN = "acme-9f8e7d6c5b4a39281706"


def test_what_a_fresh_interpreter_gets():
    every = {**SHELL, **NEVER, **OTHERS}
    assert ordinary(every) == SHELL
    assert ordinary(every, ["ACME_FUSE", "TORCH_LOGS"]) == {**SHELL, "ACME_FUSE": "1"}
    assert ordinary(every, None) == {**SHELL, **OTHERS}
    assert others(every) == ("ACME_FUSE", "CUDA_LAUNCH_BLOCKING", "OMP_NUM_THREADS")


def test_what_may_go_into_a_script():
    assert may_be_written("ACME_FUSE", "1,2") and may_be_set("ACME_FUSE")
    assert not may_be_written("ACME_HOME", "/home/me") and not may_be_written("ACME_TOKEN", "abc")
    assert not may_be_written("ACME_FUSE", "x" * 300)


def test_what_a_script_sets_reaches_the_probes():
    """A rule for what a report may show kept values with paths, and names that look like output, from the probes."""
    assert all(map(may_be_set, ["ACME_LOG_LEVEL", "ACME_DIR", "ACME_CONFIG_PATH", "XDG_CONFIG_HOME", "CC"]))
    assert not any(map(may_be_set, ["TMPDIR", "PYTHONHASHSEED", "TORCH_LOGS", "XDG_CACHE_HOME", "PWD"]))


def test_what_the_script_sets_itself_is_part_of_the_state(bureau):
    captured = bureau.capture("""
        import os
        import torch
        import oddlib

        os.environ.update(ODDLIB_FUSE="1", ODDLIB_OTHER="2", ODDLIB_CACHE_DIR="3")
        torch.compile(lambda x: torch.tanh(x) + 1, backend="oddlib_switched")(torch.ones(3))
    """)
    assert len(captured.failing) == 1
    found = bureau.case().state.environment
    assert [name for name, _ in found if "ODDLIB" in name] == ["ODDLIB_CACHE_DIR", "ODDLIB_FUSE", "ODDLIB_OTHER"]
    _summary, case = bureau.reduce()
    assert case.state.environment == (("ODDLIB_FUSE", "1"),)


def test_a_file_that_a_variable_leads_to_goes_next_to_the_repro(project):
    """The variable had a path, and so no probe had it; the backend needs it when it is imported."""
    config = project.write(json.dumps({"refused": "tanh"}), "settings/acme.json")
    project.write(ACME, "acme.py")
    paths = f'import os\nos.environ.update(ACME_CONFIG="{config}", ACME_LOG_DIR="/var/tmp/acme")\n'
    done = project.run(paths + CALLS_ACME)
    assert (done.code, done.ops) == (0, (3, 1))
    assert "ACME_CONFIG" in done.repro and "ACME_LOG_DIR" not in done.repro and str(project.folder) not in done.repro
    assert (done.out / "ACME_CONFIG.json").read_text() == config.read_text()
    with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
        assert "ACME_CONFIG.json" not in bundle.namelist()
        assert str(project.folder) not in bundle.read("minimal/case.json").decode()

    assert project.minify("check", done.out / "bundle.zip", path=[project.folder]).code == 128  # it lacks the file
    assert project.minify("report", "--include-data", done.out).code == 0
    assert project.minify("check", done.out / "bundle.zip", path=[project.folder]).code == 1  # still there


def test_a_secret_that_the_script_sets_is_named_and_shown_to_nobody(project):
    project.write(ACME, "acme.py")
    secrets = f'import os\nos.environ.update(ACME_TOKEN="{TOKEN}", OTHER_TOKEN="{TOKEN}-2")\n'
    done = project.run(secrets + CALLS_ACME)
    assert (done.code, done.ops) == (0, (3, 1))
    assert "ACME_TOKEN" in done.repro and TOKEN not in done.repro and TOKEN not in done.stderr
    with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
        assert not any(TOKEN.encode() in bundle.read(name) for name in bundle.namelist())
    assert "OTHER_TOKEN" not in (done.out / "case" / "case.json").read_text()
