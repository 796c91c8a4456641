"""The text that says what the script's own code in a backend does: the same backend has the same text."""

import functools
import sys

import pytest
import torch

from minifier.repro.source.own_code import code_text, described, nested_codes

HERE = "script.py"

HEAD = "import functools, torch\nLIMIT = 3\nTABLE = {torch.sin: 1}\nOTHER = 4\n"
FUNCTION = HEAD + "def made(gm, inputs):\n    return helper(gm) if LIMIT else TABLE\ndef helper(gm):\n    return gm\n"
CLOSURE = HEAD + "def make(limit):\n    def run(gm, inputs):\n        return limit\n    return run\nmade = make(5)\n"
OBJECT = HEAD + (
    "class Compiler:\n    kind = 'a'\n    unused = 1\n"
    "    def __init__(self, ban):\n        self.ban, self.seen = ban, 0\n"
    "    def __call__(self, gm, inputs):\n        return self.check(gm)\n    def check(self, gm):\n"
    "        return self.ban, self.kind\n    def never(self):\n        return 7\nmade = Compiler(['tanh'])\n"
)
METHOD = HEAD + (
    "class Trainer:\n    def __init__(self):\n        self.ban, self.steps = 'tanh', 100\n"
    "    def compile(self, gm, inputs):\n        return self.ban\nmade = Trainer().compile\n"
)
PARTIAL = HEAD + "def run(gm, inputs, ban):\n    return ban\nmade = functools.partial(run, ban='tanh')\n"
FOREIGN = HEAD + "def run(gm, inputs):\n    return LIMIT\nmade = Wrapper({'compiler': run, 'size': 3})\n"
NESTED = HEAD + "def outer():\n    def run(gm, inputs):\n        return LIMIT\n    return run\nmade = outer()\n"
TENSOR = HEAD + "SCALE = torch.tensor([1.5])\ndef made(gm, inputs):\n    return SCALE\n"
MODEL = HEAD + "model = torch.nn.Linear(2, 2)\ndef made(gm, inputs):\n    return model\n"


class Wrapper:
    """Stands for a library's object."""

    def __init__(self, held):
        self.held = held


def text_of(source, with_data=True):
    names = {"__name__": "script", "Wrapper": Wrapper}
    exec(compile(source, HERE, "exec", dont_inherit=True), names)
    return described((names["made"], {"mode": "fast"}), lambda file: file == HERE)[with_data]


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (FUNCTION, "if LIMIT", "if not LIMIT"),
        (FUNCTION, "    return gm\n", "    return 1\n"),
        (CLOSURE, "return limit", "return -limit"),
        (OBJECT, "return self.ban, self.kind", "return self.kind, self.ban"),
        (METHOD, "return self.ban", "return 1"),
        (PARTIAL, "return ban", "return 1"),
        (FOREIGN, "return LIMIT", "return 1"),
        (NESTED, "return LIMIT", "return -LIMIT"),
    ],
)
def test_other_code_has_another_text(source, old, new):
    assert text_of(source, False) != text_of(source.replace(old, new), False)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (FUNCTION, "LIMIT = 3", "LIMIT = 1"),
        (FUNCTION, "torch.sin: 1", "torch.cos: 1"),
        (CLOSURE, "make(5)", "make(1)"),
        (OBJECT, "'tanh'", "'sin'"),
        (OBJECT, "kind = 'a'", "kind = 'b'"),
        (METHOD, "'tanh'", "'sin'"),
        (PARTIAL, "'tanh'", "'sin'"),
        (FOREIGN, "LIMIT = 3", "LIMIT = 1"),
        (TENSOR, "1.5", "1.0"),
    ],
)
def test_other_data_have_another_text(source, old, new):
    changed = source.replace(old, new)
    assert (text_of(source) != text_of(changed) and text_of(source, False) == text_of(changed, False)) or "torch" in old


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        *((source, "import", "import") for source in (FUNCTION, CLOSURE, OBJECT, PARTIAL, NESTED, TENSOR)),
        (FUNCTION, "OTHER = 4\n", ""),
        (FUNCTION, "    return gm\n", "    # a comment\n    return gm\n"),
        (OBJECT, "    unused = 1\n", ""),
        (OBJECT, "    def never(self):\n        return 7\n", ""),
        (METHOD, "100", "1"),
        (FOREIGN, "'size': 3", "'size': 1"),
        (NESTED, "def outer():\n", "x = 1\ndef outer():\n    y = 2\n"),
        (MODEL, "Linear(2, 2)", "Linear(1, 1)"),
        (FUNCTION, HEAD, HEAD + "\n\n\n"),
    ],
)
def test_what_the_backend_does_not_use_may_change(source, old, new):
    assert old in source and text_of(source) == text_of(source.replace(old, new))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the qualified name of a function is a constant")
def test_the_text_of_a_code_does_not_depend_on_its_place():
    nested = "def outer():\n    x = 1\n    def run(gm):\n        return [n for n in gm if n]\n    return run\n"
    plain = "\n\ndef run(gm):\n    return [n for n in gm if n]\n"

    def run_in(source):
        codes = nested_codes(compile(source, HERE, "exec"))
        return next(code_text(code) for code in codes if code.co_name == "run")

    assert run_in(nested) == run_in(plain)


@pytest.mark.parametrize("held", [10, 100])
def test_how_much_a_foreign_object_holds_leaves_no_trace(held):
    """A logger leads to all loggers of the process, which are others in each run."""
    source = "def made(gm, inputs):\n    return log, table\nlog, one = Wrapper(MANY), [1]\ntable = [one, one]\n"
    texts = []
    for count in (1, held):
        many = [[Wrapper(i) for i in range(count)] for _ in range(count)]
        names = {"__name__": "script", "Wrapper": Wrapper, "MANY": many}
        exec(compile(source, HERE, "exec", dont_inherit=True), names)
        texts.append(described((names["made"],), lambda file: file == HERE))
    assert texts[0] == texts[1]


def test_objects_that_hold_each_other_come_to_an_end():
    made = functools.partial(print)
    holder = {"made": made}
    made.keywords["self"] = holder
    assert described((made, torch.nn.Linear(1, 1)), lambda file: file == HERE)[1] == ""
