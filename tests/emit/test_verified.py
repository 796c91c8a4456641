"""What a script needs is added only if it does not show the failure without."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from failing_cases import WRONG, backend, of_op, raised
from forked_script import forked_interpreters
from vocabulary import in_child, run_alone

from minifier.case import Case, Script, State
from minifier.case.variables import others
from minifier.failure import Stage
from minifier.settings import Settings
from minifier.workflow.attempt import ReproResult
from minifier.workflow.repro_search import ReproSearch

EXAMPLES = str(Path(__file__).parents[1] / "cases")
pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("processes")]


def verified(case: Case, folder: Path):
    """In a child, since this adopts orphans and kills them: (script or None, runs that showed it, reason)."""
    case = replace(case, script=Script("failing", folders=(EXAMPLES,)))

    def work():
        search = ReproSearch(case, folder / "out", 60, Settings(), interpreters=forked_interpreters())
        return told(search.search())

    return in_child(work, folder, 270)


def told(proof: ReproResult):
    return proof.repro and proof.repro.text, proof.check and proof.check.same, proof.reason


def test_an_environment_variable_that_is_needed_is_set(tmp_path):
    failure = raised(
        Stage.COMPILE, "oddlib.backends.LoweringError", "no lowering for tanh", "oddlib.backends", "refuse"
    )
    state = State(environment=(("TORCHINDUCTOR_FREEZING", "1"),))
    text, agreeing, _ = verified(of_op(backend("oddlib_environment"), failure, state=state), tmp_path)
    assert agreeing == 3 and text.startswith(
        'import os\n\nos.environ["TORCHINDUCTOR_FREEZING"] = "1"\n\nimport torch\n'
    )


def test_nan_of_eager_itself_is_no_difference(tmp_path):
    text, agreeing, _ = verified(of_op(backend("faulty_wrong", op="log"), WRONG, "torch.log"), tmp_path)
    assert agreeing == 3 and "assert_close(actual, expected, equal_nan=True)" in text


def test_a_function_that_differs_from_itself_is_not_blamed_on_the_backend(tmp_path):
    """Its result depends on how often it was called: a script of it would fail with every backend."""
    case = of_op(backend("faulty_wrong", op="increase"), WRONG, "oddcounter:increase")
    (tmp_path / "oddcounter.py").write_text(
        "import itertools\nimport torch\n\ncount = itertools.count()\n\n\n@torch.compiler.allow_in_graph\n"
        "def increase(x):\n    return x + next(count)\n"
    )
    case = replace(case, script=Script("failing", folders=(str(tmp_path),)))

    def work():
        search = ReproSearch(case, tmp_path / "out", 60, Settings(verify=1), interpreters=forked_interpreters())
        text, _, reason = told(search.search())
        return text is None, reason

    nothing, reason = in_child(work, tmp_path, 270)
    assert nothing and "showed a failure with the backend eager too: wrong-result" in reason
    tried = sorted((tmp_path / "out").rglob("repro.py"))
    assert tried and all(script.parent.parent.name == "attempts" for script in tried)
    assert str(tried[0].relative_to(tmp_path / "out")) in reason


@pytest.mark.parametrize(("value", "is_told"), [("1", True), ("1/home/me", False)])
def test_what_the_shell_has_set_is_found(tmp_path, monkeypatch, value, is_told):
    """A repro was verified with a variable of the user's shell in place, which its readers do not have."""
    failure = raised(
        Stage.COMPILE, "oddlib.backends.LoweringError", "no lowering for tanh", "oddlib.backends", "refuse"
    )
    case = replace(of_op(backend("oddlib_switched"), failure), script=Script("failing", folders=(EXAMPLES,)))
    kept = [name for name in others(os.environ) if name != "OMP_NUM_THREADS"]
    for name in kept:
        monkeypatch.delenv(name)
    for name in ("ACME_A", "ACME_B", "ZEBRA"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("ODDLIB_FUSE", value)

    def work():
        search = ReproSearch(case, tmp_path / "out", 60, Settings(verify=1), interpreters=forked_interpreters())
        assert search.search().repro is None
        return told(search.with_variables())

    text, agreeing, reason = in_child(work, tmp_path, 190)
    assert agreeing == 1, reason
    assert ('os.environ["ODDLIB_FUSE"] = "1"' in text) is is_told and "ZEBRA" not in text and "/home/me" not in text
    assert ("Needs ODDLIB_FUSE in its environment" in text) is not is_told
    if is_told:
        done = run_alone(tmp_path / "out" / "repro.py", tmp_path / "alone")
        assert "LoweringError" in done.stderr
