"""A reduction does not change the backend under test, however the script reaches it, nor lets luck decide."""

import pytest
import torch._dynamo  # noqa: F401 - the children inherit it
from layers import sampled
from vocabulary import in_child

from minifier.reduction.probe.verdicts import seen
from minifier.repro.source.conditions import SourceRun
from minifier.repro.source.frozen import Frozen
from minifier.repro.source.probe import SourceLab
from minifier.repro.source.reduce_script import KnownRun, first_failure

pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("processes")]

HEAD = """\
import torch

class Compiled:
    def __init__(self, gm):
        self.gm, self.is_wrong = gm, any("sin" in str(node.target) for node in gm.graph.nodes)
    def __call__(self, *args):
        return [out + self.is_wrong for out in self.gm.forward(*args)]

def third(gm, inputs):
    return Compiled(gm)

def model(x):
    return torch.sin(x) * 2

x = torch.ones(3)
"""
CHECK = "assert torch.equal(f(x), model(x))\n"
PASS = "def count(graph):\n    for node in graph.nodes:\n        assert 'sin' not in str(node.target), 'no sine'\n"
AOT = """\
from torch._dynamo.backends.common import aot_autograd
f = torch.compile(model, backend=aot_autograd(fw_compiler=third))
"""
FORMS = {
    "a keyword": "f = torch.compile(model, **dict(backend=third))\n",
    "registered by a call": "torch._dynamo.register_backend(third)\nf = torch.compile(model, backend='third')\n",
    "optimize": "f = torch._dynamo.optimize(third)(model)\n",
    "a method of a module": "f = torch.nn.Identity()\nf.forward = model\nf.compile(backend=third)\n",
    "an attribute": "class C:\n    backend = staticmethod(third)\nf = torch.compile(model, backend=C.backend)\n",
    "a compiler of AOTAutograd": AOT,
}


def changed_is_refused(tmp_path, source, old, new):
    """Return whether the script with this change shows the failure by its fingerprint, and is refused nevertheless."""

    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        first = SourceRun(source, lab.run(source))
        lab.sought = seen(first.end, ()).fingerprint
        changed = source.replace(old, new)
        by_fingerprint = lab.holds([source, changed])
        again = SourceLab(tmp_path, tmp_path / "journal.jsonl", lab.sought)
        again.conditions = [Frozen(first)]
        return by_fingerprint, again.holds([source, changed]), again.frozen

    return in_child(work, tmp_path, 200)


@pytest.mark.parametrize("form", sampled(FORMS))
def test_the_backend_stays_however_it_is_reached(tmp_path, form):
    always = ('any("sin" in str(node.target) for node in gm.graph.nodes)', "True")
    by_fingerprint, held, frozen = changed_is_refused(tmp_path, HEAD + FORMS[form] + CHECK, *always)
    assert (by_fingerprint, held) == ([True, True], [True, False])
    assert {text.partition("\n")[0] for text in frozen} >= {"def third(gm, inputs):", "class Compiled:"}


@pytest.mark.soak
def test_what_a_script_puts_into_inductor_by_options_stays(tmp_path):
    source = HEAD + PASS + "f = torch.compile(model, options={'post_grad_custom_post_pass': count})\nf(x)\n"
    by_fingerprint, held, frozen = changed_is_refused(tmp_path, source, "'sin' not in str(node.target)", "not node")
    assert (by_fingerprint, held) == ([True, True], [True, False])
    assert [text for text in frozen if text.startswith("def count")]


OF_DYNAMO = """\
import torch

def mine(gm, inputs):
    return gm.forward

f = lambda x: x * {factor}
x = torch.ones(2)
assert torch.equal(torch.compile(f, backend=mine)(x), f(x))
"""


def test_a_check_that_fails_with_the_graphs_in_eager_mode_too_needs_no_backend(tmp_path):
    """Then torch.compile is at fault, and no candidate waits for a compiler."""

    def work(factor, backend="gm.forward"):
        text = OF_DYNAMO.format(factor=factor).replace("gm.forward", backend)
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        first_failure(lab, text, None, KnownRun(), "script")
        return lab.without_backends

    assert in_child(lambda: work("(2 if torch.compiler.is_compiling() else 1)"), tmp_path, 200)
    assert not in_child(lambda: work("1", "lambda *args: [2 * out for out in gm(*args)]"), tmp_path, 200)


LUCKY = """\
import random
import torch

def halves(gm, inputs):
    return lambda *args: [out * 0.5 if args[0].sum() < 0 else out for out in gm(*args)]

{seed}
x = torch.tensor([{draw}])
f = torch.tanh
torch.testing.assert_close(torch.compile(f, backend=halves)(x), f(x))
"""


@pytest.mark.parametrize(
    ("seed", "draw"),
    [("random.seed(261)", "random.gauss(2, 1)"), ("torch.manual_seed(0)", "torch.rand(1).item() - 2")],
    ids=["random", "torch"],
)
def test_the_seed_of_a_script_that_checks_results_stays_where_it_draws(seed, draw, tmp_path):
    """Each process draws other numbers, as fresh interpreters do; a failure by luck is none."""
    script = LUCKY.format(seed=seed, draw=draw)

    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        source, _ = first_failure(lab, script, None, KnownRun(), "script")
        without = source.replace(f"{seed}\n", "")
        return lab.holds([source, without, without.replace(draw, "-9.0")])

    assert in_child(work, tmp_path, 200) == [True, False, True]


def test_each_process_draws_other_numbers_as_fresh_interpreters_do(tmp_path):
    def work():
        lab = SourceLab(tmp_path, tmp_path / "journal.jsonl", None)
        draw = "import random\nraise ValueError(random.random())\n"
        return len({lab.run(draw).result["links"][0]["message"] for _ in "123"})

    assert in_child(work, tmp_path, 200) == 3
