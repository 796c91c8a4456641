"""Scripts that behave badly: the exit code is right, nothing is left behind."""

from pathlib import Path

import pytest
from layers import sampled
from vocabulary import Bureau

pytestmark = pytest.mark.timeout(200)

FAILING = """
import torch
import oddlib

with torch.no_grad():
    torch.compile(lambda x: (x.sin() + 1).tanh().cos(), backend="oddlib_tanh")(torch.randn(64, 64))
"""


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
