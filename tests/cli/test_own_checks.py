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


def test_only_a_check_that_eager_mode_passes_is_reduced(project):
    project.write(DIFFERS.format(factor="1.5", code=1))
    assert project.minify("run", "--out", project.out, "failing.py").code == 1
    done = project.run(DIFFERS.format(factor="(1.5 if torch.compiler.is_compiling() else 1.0)", code="'WRONG'"))
    assert done.code == 0, done.stdout + done.stderr
    assert "SystemExit" in done.repro and "is_compiling" in done.repro and "print" not in done.repro
    assert done.result["level"] == "source" and done.result["failure"]["kind"] == "exit"


UNOBSERVED = """
import torch

@torch.compile(backend="eager")
def scale(x):
    return x * (2 if torch.compiler.is_compiling() else 1)

x = torch.ones(3)
y = x.sin() + 1
scaled = scale(x)
if torch.library.Library.define.__code__.co_filename.endswith("library.py"):
    torch.testing.assert_close(scaled, x)
"""


def test_a_script_that_fails_only_without_the_hooks_of_the_tool_is_reduced(project):
    done = project.run(UNOBSERVED)
    assert done.code == 0, done.stderr
    assert done.result["level"] == "source" and done.result["failure"]["type"] == "AssertionError"
    assert "is_compiling" in done.repro and "sin" not in done.repro
