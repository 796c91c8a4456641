"""Full disks, backends that leak, scripts that behave badly: the exit code is right, nothing is left behind."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from layers import sampled
from vocabulary import Bureau, Project

pytestmark = pytest.mark.timeout(200)

FAILING = """
import torch
import oddlib

with torch.no_grad():
    torch.compile(lambda x: (x.sin() + 1).tanh().cos(), backend="oddlib_tanh")(torch.randn(64, 64))
"""


def in_own_mounts(folder: Path) -> list[str] | None:
    """The command before one that may mount what nobody else sees; None where that is not permitted. It is tried on
    the folder."""
    tool = shutil.which("unshare")
    for more in ([], ["--user", "--map-root-user"]):
        command = [tool or "", *more, "--mount"]
        mount = [*command, "mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
        if tool and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            return command
    return None


def test_a_full_disk(project: Project):
    before = in_own_mounts(project.temporary)
    if before is None:
        pytest.skip("this machine lets nobody mount a small file system")
    project.write(FAILING)
    project.out.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {project.out}"
    run = f"exec {sys.executable} -m minifier run --verify 1 --out {project.out} failing.py"
    done = subprocess.run(
        [*before, "bash", "-c", f"{mount} && {run}"],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode in (4, 5), done.stderr
    assert "No space left on device" in done.stderr and "minifier/" not in done.stderr, done.stderr
    assert "attach it to a report" not in done.stderr and project.litter() == []


BAD = {
    "changes the folder": "import os\nos.chdir('/')\n",
    "prints 100 MB": "print('x' * 10**8)\n",
    "installs handlers": "import signal\nsignal.signal(signal.SIGTERM, lambda *_: None)\nsignal.signal(signal.SIGINT, "
    "signal.SIG_IGN)\n",
    "has grandchildren that outlive it": "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 987 & sleep 987'], "
    "start_new_session=True)\n",
    "closes all files": "import os\nos.closerange(0, 200)\n",
}


@pytest.mark.parametrize("what", sampled(BAD, 2))
def test_a_script_that_behaves_badly(bureau: Bureau, tmp_path, what):
    """It is run in a folder in which there is nothing else."""
    own = tmp_path / "own"
    own.mkdir()
    text = FAILING.replace("import torch\n", f"import os\nos.chdir({str(own)!r})\n{BAD[what]}import torch\n", 1)
    captured = bureau.capture(text)
    assert [failing.ops for failing in captured.failing] == [4], captured
    assert bureau.case().failure.message == "no lowering for tanh"
    assert sleepers() == [], "processes were left behind"


def sleepers() -> list[str]:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line.decode() for line in lines if b"sleep\x00987" in line]
