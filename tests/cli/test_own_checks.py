"""Scripts whose own check finds what no backend call shows: reduced if eager mode passes it."""

import pytest

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("soak")]

DIFFERS = """
import torch

def scale(x):
    return x * {factor}

x = torch.randn(4)
print("checking")
y = torch.compile(scale, backend="eager")(x)
if not torch.equal(y, x):
    raise SystemExit({code})
"""


def test_a_check_that_only_compiled_code_fails(minify):
    done = minify(DIFFERS.format(factor="(1.5 if torch.compiler.is_compiling() else 1.0)", code="'WRONG'"))
    assert done.code == 0, done.stdout + done.stderr
    assert "SystemExit" in done.repro and "is_compiling" in done.repro and "print" not in done.repro
    assert done.result["level"] == "source" and done.result["failure"]["kind"] == "exit"


def test_a_check_that_eager_mode_fails_too(minify):
    done = minify(DIFFERS.format(factor="1.5", code=1))
    output = done.stdout + done.stderr
    assert done.code == 1 and "exit status 1 by itself, without torch.compile as well, and no backend" in output
    assert "Of 1 call 1 was compared" in output
