"""Interpreters that do not put the folder of the program first on the import path."""

import subprocess
import sys

import pytest
from layers import SOAK

pytestmark = pytest.mark.timeout(200)

SCRIPT = """
import torch
import acme

def f(x):
    return torch.tanh(torch.sin(x))

torch.compile(f, backend=acme.refuse)(torch.randn(3))
"""
BACKEND = """
def refuse(gm, inputs):
    if any("tanh" in node.name for node in gm.graph.nodes):
        raise RuntimeError("no lowering for tanh")
    return gm.forward
"""


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ((), {"PYTHONSAFEPATH": "1"}),
        pytest.param(
            ("-P",),
            {},
            marks=[SOAK, pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no -P")],
        ),
    ],
)
def test_no_folder_of_the_import_path_is_lost(project, options, variables):
    project.write(SCRIPT)
    project.write(BACKEND, "../libraries/acme.py")
    done = subprocess.run(
        [sys.executable, *options, "-m", "minifier", "run", "--out", project.out, "--verify", "1", "failing.py"],
        cwd=project.folder,
        env=project.environment(path=[project.root / "libraries"], **variables),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
