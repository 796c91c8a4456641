"""What a slice keeps, one construct of Python after the other."""

from pathlib import Path

import pytest
from vocabulary import source_of

from minifier.capturing.slicing.slices import Wanted, slice_module


def sliced(text, *names, **wanted):
    return slice_module(source_of(text), Wanted(names, **wanted))


# A file of kept/ is a module, its name what it is about; lines that the slice for `target` drops begin with `-`.
KEPT = sorted((Path(__file__).parent / "kept").glob("*.txt"))
IMPORTS = {
    "import sys as system, operator as op": "import operator as op",
    "from collections import OrderedDict, defaultdict as dd": "from collections import defaultdict as dd",
    "import json": None,
}


def before_and_after(text):
    """The module, and the slice that is expected of it."""
    lines = text.splitlines()
    module = "\n".join(line.replace("-", "", 1) if line.lstrip().startswith("-") else line for line in lines)
    kept = [IMPORTS.get(line, line) for line in lines if not line.lstrip().startswith("-")]
    return module + "\n", "\n".join(line for line in kept if line is not None).strip("\n") + "\n"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_slice_keeps(path):
    module, expected = before_and_after(path.read_text())
    found = sliced(module, "target")
    assert found == expected
    names = {}
    exec(compile(found, "slice", "exec"), names)
    assert "target" in names


A_STAR = "from math import *\nfrom json import dumps\n\n"


@pytest.mark.parametrize(
    ("module", "names", "until", "found"),
    [
        (f"{A_STAR}target = floor\n", "target", None, "from math import *\n\ntarget = floor\n"),
        (f"{A_STAR}target = dumps\n", "target", None, "from json import dumps\n\ntarget = dumps\n"),
        ("LIMIT = 1\ntarget = [LIMIT]\ntarget.append(2)\nLIMIT = 2\n", "target", 3, "LIMIT = 1\ntarget = [LIMIT]\n"),
        ("import os\nx = 1\n", "target", None, ""),
    ],
    ids=["a star", "no star", "what runs after the names were used", "no such name"],
)
def test_a_small_module(module, names, until, found):
    assert sliced(module, names, **({"until": until} if until else {})) == found


CUSTOM_OP = """
import torch

FACTOR = 2


@torch.library.custom_op("shop::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * FACTOR


@double.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.register_autograd("shop::double", lambda ctx, grad: grad * FACTOR)
def unused():
    pass


@torch.library.custom_op("shop::other", mutates_args=())
def other(x: torch.Tensor) -> torch.Tensor:
    return x
"""


def test_a_custom_op_brings_all_that_is_registered_for_it():
    found = sliced(CUSTOM_OP, ops=["shop::double"])
    assert "def double" in found and "register_fake" in found and "FACTOR = 2" in found
    assert "register_autograd" in found and "other" not in found


def test_an_op_defined_with_a_library_brings_the_library():
    text = """
        import torch

        LIB = torch.library.Library("store", "DEF")
        LIB.define("triple(Tensor x) -> Tensor")
        LIB.define("half(Tensor x) -> Tensor")


        @torch.library.impl(LIB, "triple", "CompositeExplicitAutograd")
        def triple(x):
            return x * 3


        @torch.library.impl("store::half", "CPU")
        def half(x):
            return x / 2
    """
    found = sliced(text, ops=["store::triple"])
    assert 'Library("store", "DEF")' in found and 'LIB.define("triple' in found and "def triple" in found
    assert "half" not in found


OPS_BY_HELPERS = """
import torch

LIB = torch.library.Library("bank", "DEF")


def define(schema, kernel):
    LIB.define(schema)
    LIB.impl(schema.partition("(")[0], kernel, "CPU")


def kernel_of(schema):
    def add(kernel):
        define(schema, kernel)
        return kernel

    return add


@kernel_of("swish(Tensor x) -> Tensor")
def swish(x):
    return x * torch.sigmoid(x)


def half(x):
    return x / 2


define("half(Tensor x) -> Tensor", half)
"""


def test_an_op_that_a_helper_registers_brings_the_helper():
    found = sliced(OPS_BY_HELPERS, ops=["bank::swish"])
    assert all(text in found for text in ("LIB = ", "def define", "def kernel_of", "def swish")) and "half" not in found
    found = sliced(OPS_BY_HELPERS, ops=["bank::half"])
    assert all(text in found for text in ("LIB = ", "def define", "def half", "\ndefine(")) and "swish" not in found


@pytest.mark.parametrize(
    "text",
    [
        """
        import torch

        LIB = torch.library.Library("bank", "DEF")
        KERNELS = {"swish": lambda x: x * torch.sigmoid(x)}
        for name, kernel in KERNELS.items():
            LIB.define(f"{name}(Tensor x) -> Tensor")
            LIB.impl(name, kernel, "CPU")
        """,
        """
        import torch

        NAMESPACE = "ba" + "nk"


        @torch.library.custom_op(f"{NAMESPACE}::swish", mutates_args=())
        def swish(x: torch.Tensor) -> torch.Tensor:
            return x * torch.sigmoid(x)
        """,
        """
        from torch.library import define, impl

        NAMESPACE = "ba" + "nk"


        def add_op(name, function):
            define(f"{NAMESPACE}::{name}", "(Tensor x) -> Tensor")
            impl(f"{NAMESPACE}::{name}", "default", function)


        add_op("swish", lambda x: x * torch.sigmoid(x))
        """,
        """
        import torch

        torch.ops.load_library("libfast.so")
        """,
    ],
    ids=["its name", "its namespace", "imported functions", "a shared library"],
)
def test_an_op_with_a_computed_name_brings_what_registers_ops(text):
    module = source_of(text)
    assert sliced(f"{module}\n\nprint(1)\n", ops=["bank::swish"]).strip() == module.strip()


NAMED_ELSEWHERE = """
    import torch

    lib = torch.library.Library("devx", "FRAGMENT")
    NOTES = "devx::halve"


    def make(names):
        for name in names:
            lib.define(f"{name}(Tensor x) -> Tensor")


    make(("ha" + "lve",))
"""


def test_a_statement_that_only_names_an_op_does_not_register_it():
    assert sliced(NAMED_ELSEWHERE, ops=["devx::halve"]).rstrip().endswith('make(("ha" + "lve",))')
