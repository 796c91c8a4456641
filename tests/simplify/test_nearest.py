"""The nearest program that passes: what was taken away last, and the failure went."""

import pytest
from vocabulary import Bureau, Project

from minifier.case.store import load
from minifier.emit.repro import Template, difference, write_repro

pytestmark = pytest.mark.timeout(150)

SCRIPT = """
import torch
import picky


def fn(x, y):
    a = torch.matmul(x * y, x.transpose(-1, -2)).relu()
    return a.sin().sum()


torch.compile(fn, backend="picky_BACKEND")(torch.randn(6, 20, 48), torch.randn(6, 20, 48))
"""

# What is refused, and what the nearest program that is not would have otherwise.
NEAREST = {
    "two_elements": ["-x = torch.randn(2)", "+x = torch.randn(1)"],
    "more_than_ten": ["-x = torch.randn(1, 11)", "+x = torch.randn(1, 10)"],
    "relu_before_sin": ["-    a = x.relu()", "-    return a.sin()", "+    return x.relu()"],
}


@pytest.mark.parametrize("what", NEAREST)
def test_one_change_away(bureau: Bureau, what):
    bureau.capture(SCRIPT.replace("BACKEND", what))
    _, case = bureau.reduce()
    passing = load(bureau.folder / "out-1" / "nearest")
    texts = [write_repro(each, Template.COMPILE_FUNCTION).text for each in (case, passing)]
    told = difference(*texts).splitlines()
    assert [line for line in told[2:] if line[0] in "+-"] == NEAREST[what]


def test_an_op_that_is_refused_whatever_it_has_has_none(bureau: Bureau):
    bureau.capture(SCRIPT.replace("BACKEND", "relu"))
    bureau.reduce()
    assert not (bureau.folder / "out-1" / "nearest").exists()


def test_the_report_and_the_result_have_it(project: Project):
    done = project.run(SCRIPT.replace("BACKEND", "two_elements"))
    assert done.code == 0, done.stderr
    report = (done.out / "report.md").read_text()
    assert "## The nearest that passes" in report and "-x = torch.randn(2)\n+x = torch.randn(1)\n" in report
    assert done.result["nearest"].splitlines()[-2:][0] == "+x = torch.randn(1)"
