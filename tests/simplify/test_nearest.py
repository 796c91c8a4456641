"""The nearest program that passes, in what a user gets; which one it is, tests/engine/test_refused.py tells."""

import pytest
from vocabulary import Project

pytestmark = pytest.mark.timeout(150)

SCRIPT = """
import torch
import picky


def fn(x, y):
    a = torch.matmul(x * y, x.transpose(-1, -2)).relu()
    return a.sin().sum()


torch.compile(fn, backend="picky_BACKEND")(torch.randn(6, 20, 48), torch.randn(6, 20, 48))
"""


def test_the_report_and_the_result_have_it(project: Project):
    done = project.run(SCRIPT.replace("BACKEND", "two_elements"))
    assert done.code == 0, done.stderr
    report = (done.out / "report.md").read_text()
    assert "## The nearest that passes" in report and "-x = torch.randn(2)\n+x = torch.randn(1)\n" in report
    assert done.result["nearest"].splitlines()[-2:][0] == "+x = torch.randn(1)"
