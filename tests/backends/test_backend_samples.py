"""Every sample, run with plain python, ends as samples/README.md says. What each fault does is seen in the corpus."""

import os
import re
from pathlib import Path

import pytest
from layers import sampled
from warm_command import warm_python

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
ROWS = re.findall(r"^\| `(\w+)\.py` \| .+ \| (.+) \|$", (SAMPLES / "README.md").read_text(), re.M)
RUNS = {name: code for name, code in ROWS if code != "none"}  # the others hang


def test_every_script_is_listed_but_for_the_shared_model():
    assert {path.stem for path in SAMPLES.glob("*.py")} == {*dict(ROWS), "small_model"}


@pytest.mark.timeout(90)
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", sampled(RUNS, 6))
def test_a_sample_ends_with_its_exit_code(tmp_path, name):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": ""}
    done = warm_python(SAMPLES / f"{name}.py", folder=tmp_path, environment=environment, timeout=80)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    assert str(code) in RUNS[name].split(" or "), done.stderr
    assert code != 1 or done.stderr.startswith("Traceback")
