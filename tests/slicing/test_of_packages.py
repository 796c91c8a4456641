"""Backends of a package that registers none of them: what makes them again."""

import functools

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from minifier.capturing.object_source import write_object
from minifier.errors import CannotSave


def made_again():
    """Return (expression that is expected, expression that was found, whether it makes the same type) for objects."""
    from oddlib import authored  # in a child: names of a module here are no secret

    compiler = authored.Compiler(2)
    objects = {
        "make(level=3)": authored.make(3),
        "Compiler(level=3, dtype=torch.bfloat16)": authored.Compiler(3, torch.bfloat16),
        "Compiler(level=2).lower": compiler.lower,
        "Rules(level=1, inner=(Compiler(level=2),))": authored.Rules(1, (compiler,)),
        "functools.partial(Compiler(level=2), deny={torch.cumsum, torch.tanh})": functools.partial(
            compiler, deny={torch.tanh, torch.cumsum}
        ),
        "aot_autograd(fw_compiler=make(level=7))": aot_autograd(fw_compiler=authored.make(7)),
        "Rules(level=1, inner=(Config(mode=Mode.FAST, depth=3),))": authored.Rules(
            1, (authored.Config(authored.Mode.FAST, 3),)
        ),
        "open_session('alpha')": authored.open_session("alpha"),  # says itself how it is written
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


# (what the script makes ahead, what it gives to torch.compile, lines that the repro has)
