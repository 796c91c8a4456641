"""The check that found a wrong result stays, with the statements between it and compiled code, and so do backends."""

from dataclasses import replace

import pytest

from benchmarks.programs import CORPUS
from minifier.reduction.probe.children import ChildEnd
from minifier.repro.source.conditions import BACKENDS, CALLS, EXIT, SourceRun
from minifier.repro.source.frozen import Frozen
from minifier.repro.source.statement_tree import Tree, texts_of
from minifier.torch_side.fx.script_objects import FILE

HEAD = """\
import torch
from torch.testing import assert_close

def model(x):
    return torch.tanh(torch.relu(x) + 1)

fast = torch.compile(model, backend=noisy)
x = torch.ones(4)
"""


def places(source, text):
    return [number for number, line in enumerate(source.splitlines(), 1) if text in line]


def run_of(source, *failing, called="fast(x)", backends=(), further=(), is_inlined=False):
    """A run of a source that fails at the first lines with these texts, outermost first, else at the last line."""
    lines = [places(source, text)[0] for text in failing] or [len(source.splitlines())]
    frames = [["__main__", "<module>" if not n else f"f{n}", FILE, line] for n, line in enumerate(lines)]
    result = {"status": "fail", "links": [{"message": "", "frames": [*frames, *further]}]}
    calls = [[["<module>", line]] for line in places(source, called)]
    told = {CALLS: calls, BACKENDS: [[name, FILE, places(source, text)[0]] for name, text in backends]}
    return SourceRun(source, ChildEnd(result, 1.0, told=told), is_inlined)


ALLCLOSE = "ok = torch.allclose(fast(x), model(x), rtol=1e-2)\nif not ok:\n    raise RuntimeError('wrong')\n"
ASSERT = "expected = model(x)\ngot = fast(x)\nassert_close(got, expected, rtol=1e-2, msg='wrong')\n"
DOTTED = "torch.testing.assert_close(fast(x), model(x), rtol=1e-2)\n"
CHAIN = "got = fast(x)\nlimit = 1e-3\nerror = got - model(x)\nworst = error.abs().max()\nassert worst < limit\n"
WORST = """\
worst = 0.0
for _ in range(5):
    worst = max(worst, (fast(x) - model(x)).abs().max().item())
assert worst < 1e-3
"""
HELPER = "def error(a, b):\n    return ((a - b).norm() / b.norm()).item()\nassert error(fast(x), model(x)) < 0.1\n"
PARAMETER = "def check(a, b, tol):\n    if torch.allclose(a, b, atol=tol):\n        return\n    raise ValueError\n"
CALL = "check(fast(x), model(x), 0.5)\n"
FAIL = "def fail(why):\n    raise ValueError(why)\nif not torch.equal(fast(x), model(x)):\n    fail('wrong')\n"
LOOP = "for a, b in zip(fast(x), model(x)):\n    assert torch.allclose(a, b, rtol=0.1)\n"
HANDED = "def of(f):\n    return f(x)\nassert torch.allclose(of(fast), of(model), rtol=0.1)\n"
IN_PLACE = "out = fast(x)\nout.mul_(0.5)\nassert (out - model(x)).abs().max() < 0.1\n"
KEPT_IN = "results = []\nresults.append(fast(x))\nresults[0] *= 0.5\nassert results[0].max() < 0.1\n"
EXPLAINED = "diff = (fast(x) - model(x)).abs().max()\nif diff > 0.1:\n    raise ValueError(f'{diff}')\n"

COMPUTED = "tol = 1000 * torch.finfo(torch.float32).eps\nassert (fast(x) - model(x)).abs().max() < tol\n"
NAMED = "TOL = dict(rtol=1e-2, atol=1e-2)\nassert_close(fast(x), model(x), **TOL)\n"
COMPILES = """\
def check(m, x, tol=1e-3):
    run = torch.compile(m)
    err = (run(x) - m(x)).abs().max()
    assert err < tol
"""

IN_CHECK, IN_FAIL = (CALL[:9], "raise"), ("fail('", "raise")


@pytest.mark.parametrize(
    ("check", "failing", "old", "new"),
    [
        (ALLCLOSE, (), ", rtol=1e-2", ""),
        (ALLCLOSE, (), "torch.allclose(fast(x), model(x), rtol=1e-2)", "fast(x)"),
        (ALLCLOSE, (), "if not ok:\n    raise", "if 1:\n    raise"),
        (ALLCLOSE, (), "if not ok:\n    raise", "if ok:\n    raise"),
        (ASSERT, (), "rtol", "atol"),
        (CHAIN, (), "limit = 1e-3", "limit = 1e-9"),
        (CHAIN, (), "error = got - model(x)", "error = got"),
        (CHAIN, (), ".abs()", ""),
        (WORST, (), "< 1e-3", "< 0"),
        (WORST, (), "worst = max(worst, ", "worst = (worst, "),
        (WORST, (), "assert worst < 1e-3", "assert not worst"),
        (HELPER, (), " / b.norm()", ""),
        (PARAMETER + CALL, IN_CHECK, "0.5", "0.0"),
        (PARAMETER + CALL, IN_CHECK, "atol=tol", ""),
        (FAIL, IN_FAIL, "if not torch.equal(fast(x), model(x)):\n    fail", "if 1:\n    fail"),
        (LOOP, (), "rtol=0.1", "rtol=0"),
        (HANDED, (), "rtol=0.1", "rtol=0"),
        (IN_PLACE, (), "out.mul_(0.5)\n", ""),
        (IN_PLACE, (), "mul_(0.5)", "mul_(1)"),
        (KEPT_IN, (), "results[0] *= 0.5\n", ""),
        (EXPLAINED, (), "if diff > 0.1:", "if diff > 0:"),
        (COMPUTED, (), "1000 * ", ""),
        (NAMED, (), "dict(rtol=1e-2, atol=1e-2)", "dict()"),
    ],
)
def test_the_check_may_not_be_another(check, failing, old, new):
    assert old in check and not Frozen(run_of(HEAD + check, *failing)).may_hold(HEAD + check.replace(old, new))


@pytest.mark.parametrize(
    ("call", "old", "new"), [("check(model, x, 0.5)\n", "0.5", "0.0"), ("check(model, x)\n", "tol=1e-3", "tol=0")]
)
def test_the_threshold_that_a_compiling_function_gets_may_not_be_another(call, old, new):
    source = HEAD + COMPILES + call
    first = run_of(source, call.strip(), "assert err", called="run(x)")
    calls = [[["<module>", places(source, call.strip())[0]], ["f1", places(source, "run(x)")[0]]]]
    first = replace(first, end=replace(first.end, told={**first.end.told, CALLS: calls}))
    assert not Frozen(first).may_hold(source.replace(old, new))


def test_a_lambda_is_frozen_with_what_it_names():
    table = "TABLE = {'sin': 1}\ndef look_up(gm):\n    return TABLE[gm]\n"
    source = table + HEAD.replace("backend=noisy", "backend=lambda gm, _: look_up(gm)") + "fast(x)\n"
    frozen = Frozen(run_of(source, "return TABLE", backends=[("<lambda>", "lambda gm")]))
    assert frozen.may_hold(source.replace("x = torch.ones(4)", "x = torch.ones(1)"))
    assert not frozen.may_hold(source.replace("{'sin': 1}", "{}"))
    assert any("lambda gm" in text for text in frozen.frozen)


@pytest.mark.parametrize(
    ("check", "failing", "left"),
    [
        (ALLCLOSE, (), ("import", "from", "def model", "return", "fast =", "x =")),
        (ASSERT, (), ("import", "from", "def model", "return", "fast =", "x =", "expected =")),
        (HELPER, (), ("import", "from", "def model", "return", "fast =", "x =")),
        (DOTTED, (), ("import", "from", "def model", "return", "fast =", "x =")),
        (PARAMETER + CALL, IN_CHECK, ("import", "from", "def model", "return", "fast =", "x =")),
        (LOOP, (), ("import", "from", "def model", "return", "fast =", "x =", "for a, b")),
    ],
)
def test_the_program_and_what_is_expected_may_change(check, failing, left):
    tree = Tree(HEAD + check, Frozen(run_of(HEAD + check, *failing)).frozen)
    texts = [tree.text(node) for node in tree.statements if node not in tree.frozen]
    assert len(texts) == len(left) and all(map(str.startswith, texts, left))


def test_a_check_in_main_leaves_main_open():
    body = "x = torch.ones(4)\ngot = fast(x)\nlog(x)\nassert got.sum() < 0.1"
    source = HEAD + "def f1():\n" + "".join(f"    {line}\n" for line in body.splitlines()) + "f1()\n"
    run = run_of(source, "f1()\n"[:-1], "assert got")
    run.end.told[CALLS] = [[["<module>", len(source.splitlines())], ["f1", places(source, "got = ")[0]]]]
    frames = run.links[0]["frames"]
    frames[0][3] = len(source.splitlines())
    frozen = Frozen(run)
    assert frozen.frozen == {"got = fast(x)", "assert got.sum() < 0.1"}
    assert frozen.may_hold(source.replace("    log(x)\n", "")) and not frozen.may_hold(source.replace("0.1", "0"))


def test_another_check_of_the_script_may_not_fail():
    both = HEAD + ALLCLOSE + "assert torch.equal(fast(x), model(x))\n"
    condition = Frozen(run_of(both, "raise"))
    assert condition.holds(run_of(both, "raise")) and not condition.holds(run_of(both))
    assert condition.holds(run_of("import torch\n" + both, "raise"))


def test_a_function_for_tests_may_raise_and_a_script_may_exit():
    of_torch = [["torch.testing._comparison", "assert_close", "/c.py", 1]]
    assert Frozen(run_of(HEAD + ASSERT, further=of_torch)).has_check
    assert not Frozen(run_of(HEAD + ASSERT, further=[["torch._dynamo.eval_frame", "wrapper", "/e.py", 1]])).has_check
    caught = "import sys\ntry:\n    assert_close(fast(x), x, atol=0.1)\nexcept AssertionError:\n    sys.exit(3)\n"
    source = HEAD + caught
    lines = places(source, "assert_close(")[0], places(source, "sys.exit")[0]
    frames = [[["__main__", "<module>", FILE, line]] for line in reversed(lines)]
    told = {EXIT: [frames[0], [*frames[1], *of_torch]]}
    frozen = Frozen(SourceRun(source, ChildEnd(None, 1.0, status=3, told=told)))
    assert frozen.frozen == {"assert_close(fast(x), x, atol=0.1)"}
    assert not Frozen(SourceRun(source, ChildEnd(None, 1.0, signal=9))).has_check


@pytest.mark.parametrize("check", ["print(fast(x) + 1)\n", "y = fast(x) @ x\n"])
def test_what_does_not_check_is_no_check(check):
    assert not Frozen(run_of(HEAD + check)).frozen


BACKEND = """\
import torch
LIMIT = 3
OTHER = 4

class Compiler:
    def __init__(self, ban):
        self.ban = ban
    def __call__(self, gm, inputs):
        return check(gm, self.ban, LIMIT)

def check(gm, ban, limit):
    # each node
    return gm

def model(x):
    return x + OTHER

word = "tanh"
made = Compiler(word)
other = Compiler("sin")
fast = torch.compile(model, backend=made)
fast(x)
"""


def backend_in(source, *backends, **given):
    return Frozen(run_of(source, "fast(x)", backends=backends or [("__call__", "def __call__")], **given))


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("    # each node\n", "", False),
        ("LIMIT = 3", "LIMIT = 1", False),
        ("OTHER = 4", "OTHER = 1", True),
        ("model(x)", "model(x, y=1)", True),
        ('other = Compiler("sin")\n', "", True),
        (BACKEND[BACKEND.index("class") : BACKEND.index("def check")], "", True),
    ],
)
def test_a_backend_stays_or_goes(old, new, may):
    assert old in BACKEND and backend_in(BACKEND).may_hold(BACKEND.replace(old, new)) is may


def test_the_definition_and_what_it_names_and_what_is_handed_over_are_frozen():
    heads = {text.partition("\n")[0] for text in backend_in(BACKEND).frozen}
    assert heads == {
        "class Compiler:", "def check(gm, ban, limit):", "LIMIT = 3", 'word = "tanh"', "made = Compiler(word)",
    }  # fmt: skip


def test_a_run_has_the_backends_of_the_script():
    condition, edited = backend_in(BACKEND), BACKEND.replace("self.ban, LIMIT", "self.ban, 1")
    call = [("__call__", "def __call__")]
    assert condition.holds(run_of("\n" + BACKEND, "fast(x)", backends=call))
    assert condition.holds(run_of(BACKEND, "fast(x)"))
    assert not condition.holds(run_of(edited, "fast(x)", backends=call))
    assert not condition.holds(run_of(BACKEND, "fast(x)", backends=[("check", "def check")]))


def test_a_backend_in_main_is_frozen_and_main_is_not():
    source = (
        "def main():\n    limit = 1\n    def strict(gm, inputs):\n        return gm if limit else 1\n"
        "    fast = torch.compile(f, backend=strict)\n    fast(x)\nmain()\n"
    )
    condition = backend_in(source, ("strict", "def strict"))
    assert condition.frozen == {"limit = 1", "def strict(gm, inputs):\n    return gm if limit else 1"}
    assert condition.kept_in(source) == ("strict",)


def test_a_factory_is_frozen_as_a_whole():
    source = (
        "def make(limit):\n    def strict(gm, inputs):\n        return gm if limit else 1\n    return strict\n"
        "fast = torch.compile(f, backend=make(1))\nfast(x)\n"
    )
    (frozen,) = backend_in(source, ("strict", "def strict")).frozen
    assert frozen.partition("\n")[0] == "def make(limit):"


def test_a_module_in_the_place_of_its_import_brings_its_backend():
    condition = backend_in(BACKEND)
    inlined = BACKEND.replace("LIMIT", "BOUND")
    run = run_of(inlined, "fast(x)", backends=[("__call__", "def __call__")], is_inlined=True)
    assert condition.holds(run)
    condition.accept(run)
    assert "BOUND = 3" in condition.frozen and not condition.may_hold(inlined.replace("BOUND = 3", "BOUND = 1"))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.py"))[::12], ids=lambda path: path.stem)
def test_texts_of_statements_are_the_same_for_python_and_for_libcst(path):
    source = path.read_text(encoding="utf-8")
    tree = Tree(source)
    assert {tree.text(node) for node in tree.statements} == {text for _, text in texts_of(source)}
