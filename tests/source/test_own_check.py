"""The check that found a wrong result may be written in another way, but it may not become stricter."""

import textwrap

import pytest

from minifier.reduction.probe.children import ChildEnd
from minifier.repro.source.conditions import SourceRun
from minifier.repro.source.own_check import EXIT_LINE, SameCheck, failing_line, said_of_exit
from minifier.torch_side.fx.script_objects import FILE

HEAD = """\
import torch
from torch.testing import assert_close

def model(x):
    return torch.tanh(torch.relu(x) + 1)

fast = torch.compile(model, backend=noisy)
x = torch.ones(4)
"""


def run_of(source, line, further=()):
    frames = [["__main__", "<module>", FILE, line], *further]
    return SourceRun(source, ChildEnd({"status": "fail", "links": [{"message": "", "frames": frames}]}, 1.0))


def check_in(check, line=None):
    """The condition for a script with this check, whose statement at the line (by default its last) failed."""
    source = HEAD + check
    return SameCheck(run_of(source, line or len(source.splitlines())))


ALLCLOSE = "ok = torch.allclose(fast(x), model(x), rtol=1e-2)\nif not ok:\n    raise RuntimeError('wrong')\n"
ASSERT = "expected = model(x)\ngot = fast(x)\nassert_close(got, expected, rtol=1e-2, msg='wrong')\n"
WORST = """\
worst = 0.0
for _ in range(5):
    worst = max(worst, (fast(x) - model(x)).abs().max().item())
assert worst < 1e-3
"""
HELPER = "def error(a, b):\n    return ((a - b).norm() / b.norm()).item()\nassert error(fast(x), model(x)) < 0.1\n"
LONG_HELPER = HELPER.replace("    return (", "    scale = 2\n    return (")
PARAMETER = "def check(a, b, tol):\n    if torch.allclose(a, b, atol=tol):\n        return\n    raise ValueError\n"
CALL = "check(fast(x), model(x), 0.5)\n"
FAIL = "def fail(why):\n    raise ValueError(why)\nif not torch.equal(fast(x), model(x)):\n    fail('wrong')\n"
EXIT = "import sys\ntry:\n    assert_close(fast(x), model(x), atol=0.1)\nexcept AssertionError:\n    sys.exit(3)\n"
LOOP = "for a, b in zip(fast(x), model(x)):\n    assert torch.allclose(a, b, rtol=0.1)\n"
HANDED = (
    "def of(f):\n    with torch.no_grad():\n        return f(x)\nassert torch.allclose(of(fast), of(model), rtol=0.1)\n"
)
IN_PLACE = "out = fast(x)\nout.mul_(0.5)\nassert (out - model(x)).abs().max() < 0.1\n"


@pytest.mark.parametrize(
    ("check", "line", "candidate"),
    [
        (ALLCLOSE, None, ALLCLOSE.replace("model(x)", "torch.tanh(x)")),
        (ALLCLOSE, None, "if not torch.allclose(fast(x), torch.tanh(x), rtol=1e-2):\n    raise RuntimeError\n"),
        (ALLCLOSE, None, f"if __name__ == '__main__':\n{textwrap.indent(ALLCLOSE, '    ')}"),
        (ASSERT, None, "torch.testing.assert_close(fast(), torch.tanh(1), rtol=1e-2)\n"),
        (WORST, None, WORST.replace("range(5)", "range(1)").replace("model(x)", "torch.sin(x)")),
        (HELPER, None, "assert ((fast(x) - model(x)).norm() / model(x).norm()).item() < 0.1\n"),
        (PARAMETER + CALL, 12, PARAMETER.replace(", tol", "").replace("=tol", "=0.5") + CALL.replace(", 0.5", "")),
        (FAIL, 10, "if not torch.equal(fast(x), torch.tanh(x)):\n    raise ValueError('wrong')\n"),
        (EXIT, None, EXIT.replace("model(x)", "torch.tanh(x)")),
        (LOOP, None, "assert torch.allclose(fast(x), model(x), rtol=0.1)\n"),
        (IN_PLACE, None, IN_PLACE.replace("model(x)", "torch.tanh(x)")),
        (HANDED, None, "assert torch.allclose(fast(x), torch.tanh(x), rtol=0.1)\n"),
    ],
)
def test_the_check_may_be_written_in_another_way(check, line, candidate):
    condition = check_in(check, line)
    assert condition.applies
    assert condition.may_hold(HEAD + candidate)


@pytest.mark.parametrize(
    ("check", "line", "old", "new"),
    [
        (ALLCLOSE, None, ", rtol=1e-2", ""),
        (ALLCLOSE, None, "torch.allclose(fast(x), model(x), rtol=1e-2)", "fast(x)"),
        (ALLCLOSE, None, "if not ok:\n    raise", "if 1:\n    raise"),
        (ALLCLOSE, None, "if not ok:\n    raise", "if ok:\n    raise"),
        (ASSERT, None, "rtol", "atol"),
        (WORST, None, "< 1e-3", "< 0"),
        (WORST, None, "worst = max(worst, ", "worst = (worst, "),
        (WORST, None, "assert worst < 1e-3", "assert not worst"),
        (HELPER, None, " / b.norm()", ""),
        (LONG_HELPER, None, "scale = 2", "scale = 1"),
        (PARAMETER + CALL, 12, "0.5", "0.0"),
        (PARAMETER + CALL, 12, "atol=tol", ""),
        (FAIL, 10, "if not torch.equal(fast(x), model(x)):\n    fail", "if 1:\n    fail"),
        (LOOP, None, "rtol=0.1", "rtol=0"),
        (IN_PLACE, None, "out.mul_(0.5)\n", ""),
        (IN_PLACE, None, "mul_(0.5)", "mul_(1)"),
    ],
)
def test_the_check_may_not_be_another(check, line, old, new):
    assert old in check and not check_in(check, line).may_hold(HEAD + check.replace(old, new))


def test_another_check_of_the_script_may_not_fail():
    both = ALLCLOSE + "assert torch.equal(fast(x), model(x))\n"
    condition = check_in(both, 11)
    assert condition.holds(run_of(HEAD + both, 11)) and not condition.holds(run_of(HEAD + both, 12))


@pytest.mark.parametrize(
    "check",
    [
        "raise ValueError('no')\n",
        "assert x.sum() == 3\n",
        "print(fast(x) + 1)\n",
        "import re\nword = re.compile('a')\nassert word.match('b')\n",
        "assert eval(compile('x is None', 'x', 'eval'))\n",
    ],
)
def test_what_does_not_check_compiled_code_is_no_check(check):
    assert not check_in(check).applies


@pytest.mark.parametrize(
    ("further", "line"),
    [
        ((), 7),
        ([["torch.testing._comparison", "assert_close", "/c.py", 1]], 7),
        ([["unittest.case", "assertTrue", "/c.py", 1]], 7),
        ([["torch._dynamo.eval_frame", "compile_wrapper", "/e.py", 1]], 0),
    ],
)
def test_the_failing_line_is_the_scripts_own(further, line):
    assert failing_line(run_of("", 7, further)) == line


def test_the_failing_line_of_an_exit():
    assert failing_line(SourceRun("", ChildEnd(None, 1.0, status=1, told={EXIT_LINE: 4}))) == 4
    assert failing_line(SourceRun("", ChildEnd(None, 1.0, signal=9))) == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("if not close(x, y):\n    print('wrong')\n    sys.exit(1)\n", "where not close(x, y)"),
        ("if close(x, y):\n    pass\nelse:\n    raise SystemExit(3)\n", "where not close(x, y)"),
        ("def main():\n    return 1\nsys.exit(main())\n", "at sys.exit(main())"),
        ("if __name__ == '__main__':\n    def end():\n        os._exit(2)\n    end()\n", "at os._exit(2)"),
        ("if a:\n    sys.exit(1)\nif b:\n    sys.exit(2)\n", ""),
        ("loop.exit()\n", ""),
    ],
)
def test_where_a_script_ends_itself_is_said(source, said):
    assert said_of_exit(source) == said
