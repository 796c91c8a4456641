"""The size of a wrong gradient: that of the repro's own assertion, as a probe draws other tangents."""

from dataclasses import replace

import pytest
from case_samples import small_case

from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.flow.repro_search import with_measured_gradient
from minifier.repro.emit.repro import Repro

TEXT = "x = 1.5\n\n# wrong-result: gradient of w is off from eager's by {}\n# torch 2.13.0\n"
SHOWN = "Tensor-likes are not close!\n\nGreatest absolute difference: 0.29342 at index (0,) (up to 1e-05 allowed)\n"


def measured(aspect, shown):
    sentence = "gradient of l_w is off from eager's by 1.5"
    difference = Difference(aspect, "gradient of l_w", sentence, 1.54, 0.0, 0.0)
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message=aspect.value)
    case = replace(small_case(), failure=Failure(fingerprint, "wrong-result", sentence, differences=(difference,)))
    seen = Failure(fingerprint, "AssertionError", shown)
    repro, case = with_measured_gradient(Repro(TEXT.format(1.5), None), case, seen)
    return repro.text, case.failure.message, case.failure.differences[0].error


def test_a_gradients_error_is_that_of_the_repros_assertion():
    text, message, error = measured(Aspect.GRADIENT, SHOWN)
    assert text == TEXT.format(0.29) and message.endswith("by 0.29") and error == 0.29342


@pytest.mark.parametrize(("aspect", "shown"), [(Aspect.VALUES, SHOWN), (Aspect.GRADIENT, "no gradient")])
def test_any_other_error_stays(aspect, shown):
    text, message, error = measured(aspect, shown)
    assert text == TEXT.format(1.5) and message.endswith("by 1.5") and error == 1.54
