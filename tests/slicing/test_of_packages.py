"""Backends of a package that registers none of them: captured, reduced, written down, and run alone."""

import pytest
from layers import sampled
from minified_scripts import minified
from vocabulary import source_of

pytestmark = pytest.mark.timeout(150)

SCRIPT = """
import functools
import torch
import oddlib.authored
from oddlib.authored import Compiler, Config, Mode, Rules, configured, make, open_session, refuse
from torch._dynamo.backends.common import aot_autograd
{made}

def fn(x):
    x = torch.relu(x.sin()) + 1
    x = torch.tanh(x)
    return x.exp().sum()


torch.compile(fn, backend={given})(torch.randn(4))
"""
IN_A_FUNCTION = """
def setup(level):
    backend = {made}
    return backend
"""
# (what the script makes ahead, what it gives to torch.compile, lines that the repro has)
FORMS = {
    "a factory that the script calls": (
        "",
        "make(3, names=['a'])",
        ["from oddlib.authored import make", "backend=make(3, names=['a']))"],
    ),
    "a factory that the script calls for something else, too": (
        IN_A_FUNCTION.format(made="make(level)") + "\ntorch.compile(torch.sin, backend=make(1))(torch.ones(1))\n",
        "setup(3)",
        ["backend=make(level=3))"],
    ),
    "an instance that a function of the script makes": (
        IN_A_FUNCTION.format(made="Compiler(level, torch.bfloat16)"),
        "setup(3)",
        ["from oddlib.authored import Compiler", "backend=Compiler(level=3, dtype=torch.bfloat16))"],
    ),
    "a method of an instance": (
        IN_A_FUNCTION.format(made="Compiler(level).lower"),
        "setup(2)",
        ["from oddlib.authored import Compiler", "backend=Compiler(level=2).lower)"],
    ),
    "a record that holds others": (
        IN_A_FUNCTION.format(made="Rules(level, (Compiler(2),))"),
        "setup(1)",
        ["from oddlib.authored import Compiler, Rules", "backend=Rules(level=1, inner=(Compiler(level=2),)))"],
    ),
    "a partial of an instance": (
        IN_A_FUNCTION.format(made="functools.partial(Compiler(level))"),
        "setup(5)",
        ["import functools", "backend=functools.partial(Compiler(level=5)))"],
    ),
    "AOTAutograd's, around what a factory made": (
        IN_A_FUNCTION.format(made="aot_autograd(fw_compiler=make(level))"),
        "setup(7)",
        ["backend=aot_autograd(fw_compiler=make(level=7)))"],
    ),
    "one that says itself how it is written": (
        "",
        "open_session('alpha')",
        ["from oddlib.authored import open_session", "backend=open_session('alpha'))"],
    ),
    "an option that is a record": (
        "",
        "configured, options={'config': Config(Mode.FAST, depth=3)}",
        ["from oddlib.authored import Config, Mode, configured", "Config(mode=Mode.FAST, depth=3)})"],
    ),
    "an option that the script holds": (
        "MINE = Config(Mode.FAST)\n",
        "configured, options={'config': MINE}",
        ["MINE = Config(Mode.FAST)", 'options={"config": MINE}'],
    ),
}


@pytest.mark.parametrize("form", sampled(FORMS, 5))
def test_a_backend_that_a_package_makes(processes, tmp_path, form):
    made, given, lines = FORMS[form]
    text = minified(tmp_path, SCRIPT.format(made=made, given=given))
    assert all(line in text for line in lines), text
    assert "relu" not in text and "oddlib.authored.refuse" not in text


WRONG = """
import torch

class Odd:
    {told}

    def __call__(self, gm, inputs):
        raise ValueError("no rule")

torch.compile(torch.tanh, backend=Odd())(torch.randn(4))
"""


@pytest.mark.soak
def test_a_word_of_its_own_that_cannot_be_used_is_told(bureau):
    for told in (
        "__minify__ = 'Odd()'",
        "__minify__ = (['import os; os.getpid()'], 'Odd()')",
        "__minify__ = ([], 'Odd(')",
    ):
        captured = bureau.capture(source_of(WRONG).format(told=told))
        assert "__minify__ of an instance of Odd" in captured.failing[0].reference.reason
