"""What a script needs is added only if it does not show the failure without."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from failing_cases import WRONG, backend, of_op, raised
from forked_script import forked_interpreters
from vocabulary import in_child, run_alone

from minifier.data.case import Case, Script, State
from minifier.data.case.switches import others
from minifier.data.failure import Stage
from minifier.data.settings import Settings
from minifier.flow.attempt import Run
from minifier.flow.repro_search import ReproSearch

EXAMPLES = str(Path(__file__).parents[1] / "cases")
pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("processes")]


def searched(case: Case, folder: Path, *, variables: bool = False, folders=(EXAMPLES,)):
    """In a child, since this adopts orphans and kills them: (the repro's text or None, runs that showed it, reason)."""
    case = replace(case, script=Script("failing", folders=folders))

    def work():
        search = ReproSearch(case, folder / "out", 60, Run(Settings(verify=1), interpreters=forked_interpreters()))
        proof = search.search()
        if variables:
            assert proof.repro is None
            proof = search.with_variables()
        return proof.repro and proof.repro.text, proof.check and proof.check.same, proof.reason

    return in_child(work, folder, 270)


REFUSED = raised(Stage.COMPILE, "oddlib.backends.LoweringError", "no lowering for tanh", "oddlib.backends", "refuse")


def test_an_environment_variable_that_is_needed_is_set(tmp_path):
    state = State(environment=(("TORCHINDUCTOR_FREEZING", "1"),))
    text, agreeing, _ = searched(of_op(backend("oddlib_environment"), REFUSED, state=state), tmp_path)
    set_ahead, _, _ = text.partition("import torch")
    assert agreeing == 1 and "TORCHINDUCTOR_FREEZING" in set_ahead


def test_nan_of_eager_itself_is_no_difference(tmp_path):
    text, agreeing, _ = searched(of_op(backend("faulty_wrong", op="log"), WRONG, "torch.log"), tmp_path)
    assert agreeing == 1 and "equal_nan=True" in text


def test_a_function_that_differs_from_itself_is_not_blamed_on_the_backend(tmp_path):
    """Its result depends on how often it was called: a script of it would fail with every backend."""
    (tmp_path / "oddcounter.py").write_text(
        "import itertools\nimport torch\n\ncount = itertools.count()\n\n\n@torch.compiler.allow_in_graph\n"
        "def increase(x):\n    return x + next(count)\n"
    )
    case = of_op(backend("faulty_wrong", op="increase"), WRONG, "oddcounter:increase")
    text, _, reason = searched(case, tmp_path, folders=(str(tmp_path),))
    assert text is None and "eager" in reason
    tried = sorted((tmp_path / "out").rglob("repro.py"))
    assert tried and all(script.parent.parent.name == "attempts" for script in tried)
    assert str(tried[0].relative_to(tmp_path / "out")) in reason


@pytest.mark.parametrize(("value", "is_told"), [("1", True), pytest.param("1/home/me", False, marks=pytest.mark.soak)])
def test_what_the_shell_has_set_is_found(tmp_path, monkeypatch, value, is_told):
    """A repro was verified with a variable of the user's shell in place, which its readers do not have."""
    kept = [name for name in others(os.environ) if name != "OMP_NUM_THREADS"]
    for name in kept:
        monkeypatch.delenv(name)
    for name in ("ACME_A", "ACME_B", "ZEBRA"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("ODDLIB_FUSE", value)

    text, agreeing, reason = searched(of_op(backend("oddlib_switched"), REFUSED), tmp_path, variables=True)
    assert agreeing == 1, reason
    assert ('os.environ["ODDLIB_FUSE"] = "1"' in text) is is_told and "ZEBRA" not in text and "/home/me" not in text
    assert "ODDLIB_FUSE" in text
    if is_told:
        done = run_alone(tmp_path / "out" / "repro.py", tmp_path / "alone")
        assert "LoweringError" in done.stderr
