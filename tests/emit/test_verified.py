"""verified_repro: what a script needs is added only if it does not show the failure without."""

from dataclasses import replace
from pathlib import Path

import pytest
from failing_cases import WRONG, backend, of_op, raised
from vocabulary import in_child

from minifier.case import Case, Script, State
from minifier.failure import Stage
from minifier.proving import verified_repro
from minifier.settings import Settings

EXAMPLES = str(Path(__file__).parents[1] / "cases")
pytestmark = [pytest.mark.timeout(280), pytest.mark.slow]


def verified(case: Case, folder: Path):
    """In a child, since this adopts orphans and kills them: (script or None, runs that showed it, reason)."""
    case = replace(case, script=Script("failing", folders=(EXAMPLES,)))

    def work():
        repro, check, reason = verified_repro(case, folder / "out", 60, Settings())
        return repro and repro.text, check.same, reason

    return in_child(work, folder, 270)


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
        repro, _, reason = verified_repro(case, tmp_path / "out", 60, Settings())
        return repro is None, reason

    nothing, reason = in_child(work, tmp_path, 270)
    assert nothing and "showed the same with the backend eager: wrong-result" in reason
    assert not (tmp_path / "out").exists()
