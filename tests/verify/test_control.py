"""A repro has to pass with eager in the place of the backend."""

import pytest

from minifier.data.failure import Fingerprint, Kind, Stage
from minifier.repro.verify import Conditions, verify

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("processes")]
FAILS, PASSES = 'raise ValueError("as it is sought")\n', "print(1)\n"


def checked(folder, script, control, **options):
    paths = []
    for name, text in (("script", script), ("control", control)):
        (folder / name).mkdir()
        paths.append(folder / name / "repro.py")
        paths[-1].write_text(text)
    sought = Fingerprint(Stage.RUN, Kind.EXCEPTION, ("ValueError",), message="as it is sought")
    conditions = Conditions(sought, timeout=60, more=(), match="as it")
    return verify(paths[0], conditions, paths[1], **options)


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize(("control", "holds"), [(PASSES, True), (FAILS, False), ("import nothing_like_it", False)])
def test_any_failure_of_the_control_counts(tmp_path, control, holds, at_once):
    check = checked(tmp_path, FAILS, control, runs=2, at_once=at_once)
    assert (check.agrees, check.holds, check.passes_in_eager) == (True, holds, holds)
    assert len(check.runs) == (2 if holds else 1)  # nobody waits for what can tell nothing more


def test_without_the_failure_the_control_tells_nothing(tmp_path):
    check = checked(tmp_path, PASSES, FAILS, runs=2, at_once=2)
    assert (check.agrees, check.holds, check.passes_in_eager) == (False, False, None)


def test_further_runs_begin_at_the_end_of_the_control(tmp_path):
    """The first run ends only when a third one has begun: they write into a folder of their own."""
    waits = f"import os\nopen(f'{tmp_path}/{{os.getpid()}}', 'w')\nwhile len(os.listdir('{tmp_path}')) < 4: pass\n"
    check = checked(tmp_path, waits + FAILS, PASSES, runs=2, at_once=2)
    assert (check.holds, len(check.runs)) == (True, 2)
