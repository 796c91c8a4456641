"""Backends of a package that registers none of them: what makes them again, and repros that have it."""

import functools

import pytest
import torch
from layers import sampled
from minified_scripts import minified
from torch._dynamo.backends.common import aot_autograd

from minifier.capturing.object_source import write_object
from minifier.errors import CannotSave


def made_again():
    """Return (expression that is expected, expression that was found, whether it makes the same type) for objects."""
    from oddlib.authored import Compiler, Rules, make, open_session  # in a child: names of a module here are no secret

    objects = {
        "make(level=3)": make(3),
        "Compiler(level=3, dtype=torch.bfloat16)": Compiler(3, torch.bfloat16),
        "Compiler(level=2).lower": Compiler(2).lower,
        "Rules(level=1, inner=(Compiler(level=2),))": Rules(1, (Compiler(2),)),
        "functools.partial(Compiler(level=5), deny={torch.cumsum, torch.tanh})": functools.partial(
            Compiler(5), deny={torch.tanh, torch.cumsum}
        ),
        "aot_autograd(fw_compiler=make(level=7))": aot_autograd(fw_compiler=make(7)),
        "open_session('alpha')": open_session("alpha"),  # says itself how it is written
    }
    told = []
    for expression, value in objects.items():
        found, names = write_object(value), {}
        exec("import torch\n" + "\n".join(found.imports), names)
        told.append((expression, found.expression, type(eval(found.expression, names)) is type(value)))
    return told


def test_an_object_is_made_again_by_an_expression(forked):
    for expression, found, is_same in forked(made_again):
        assert (found, is_same) == (expression, True)


@pytest.mark.parametrize("told", ["Odd()", (["import os; os.getpid()"], "Odd()"), ([], "Odd(")], ids=str)
def test_a_word_of_its_own_that_cannot_be_used_is_told(told):
    odd = type("Odd", (), {"__minify__": told, "__call__": lambda self, gm, inputs: gm})
    with pytest.raises(CannotSave, match="__minify__ of an instance of Odd"):
        write_object(odd())


SCRIPT = """
import torch
import oddlib.authored
from oddlib.authored import Compiler, Config, Mode, configured
{made}

def fn(x):
    x = torch.relu(x.sin()) + 1
    x = torch.tanh(x)
    return x.exp().sum()


torch.compile(fn, backend={given})(torch.randn(4))
"""
# (what the script makes ahead, what it gives to torch.compile, lines that the repro has)
FORMS = [
    (
        "def setup(level):\n    backend = Compiler(level)\n    return backend\n",
        "setup(2).lower",
        ["from oddlib.authored import Compiler", "backend=Compiler(level=2).lower)"],
    ),
    (
        "",
        "configured, options={'config': Config(Mode.FAST, depth=3)}",
        ["from oddlib.authored import Config, Mode, configured", "Config(mode=Mode.FAST, depth=3)})"],
    ),
    (
        "MINE = Config(Mode.FAST)\n",
        "configured, options={'config': MINE}",
        ["MINE = Config(Mode.FAST)", 'options={"config": MINE}'],
    ),
]


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("made", "given", "lines"), sampled(FORMS))
def test_a_backend_that_a_package_makes(processes, tmp_path, made, given, lines):
    text = minified(tmp_path, SCRIPT.format(made=made, given=given))
    assert all(line in text for line in lines), text
    assert "relu" not in text
