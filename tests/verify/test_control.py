"""A repro has to pass with eager in the place of the backend."""

import pytest

from minifier.data.failure import Fingerprint, Kind, Stage
from minifier.process.interpreters import Interpreters
from minifier.repro.verify import Conditions, verify

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("processes")]
FAILS, PASSES = 'raise ValueError("as it is sought")\n', "print(1)\n"
# Passes in an interpreter of its own only, which has no torch yet.
PASSES_FRESH = f"import sys\nif 'torch' in sys.modules:\n    {FAILS}"


def checked(folder, script, control, interpreters=None, **options):
    paths = []
    for name, text in (("script", script), ("control", control)):
        (folder / name).mkdir()
        paths.append(folder / name / "repro.py")
        paths[-1].write_text(text)
    sought = Fingerprint(Stage.RUN, Kind.EXCEPTION, ("ValueError",), message="as it is sought")
    interpreters = interpreters or Interpreters()
    conditions = Conditions(sought, timeout=60, more=(), match="as it", interpreters=interpreters)
    return verify(paths[0], conditions, paths[1], **options)


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize(("control", "holds"), [(PASSES, True), (FAILS, False), ("import nothing_like_it", False)])
def test_any_failure_of_the_control_counts(tmp_path, control, holds, at_once):
    check = checked(tmp_path, FAILS, control, runs=2, at_once=at_once)
    assert (check.agrees, check.holds, check.passes_in_eager) == (True, holds, holds)


def test_without_the_failure_the_control_tells_nothing(tmp_path):
    check = checked(tmp_path, PASSES, FAILS, runs=2, at_once=2)
    assert (check.agrees, check.holds, check.passes_in_eager) == (False, False, None)


def test_a_control_that_fails_where_torch_was_imported_ahead_is_run_again(tmp_path):
    interpreters = Interpreters()
    interpreters.want_ahead(1)
    interpreters.start_ahead()
    try:
        check = checked(tmp_path, FAILS, PASSES_FRESH, interpreters, runs=1)
    finally:
        interpreters.end_ahead()
    assert check.holds
