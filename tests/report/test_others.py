"""Which backends of torch's own fail on a repro."""

import pytest
from layers import SOAK
from vocabulary import in_child

from minifier.capturing.slicing.cases import with_definitions
from minifier.data.case.store import load, save
from minifier.data.settings import Settings
from minifier.flow.explain import part_ahead_of_backend, run_controls
from minifier.repro.emit.forms import forms_for
from minifier.repro.emit.repro import write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
from torch._dynamo.backends.common import aot_autograd


@torch.library.custom_op("shop::discount", mutates_args=())
def discount(price: torch.Tensor, rate: float) -> torch.Tensor:
    return price * (1 - rate)


@discount.register_fake
def _(price, rate):
    FAKE


def strict(gm, inputs):
    if any("discount" in str(node.target) for node in gm.graph.nodes):
        raise TypeError("unknown operator in graph")
    if any("cond" in str(node.target) for node in gm.graph.nodes):
        raise TypeError("no branches")
    return gm.forward


def traced(gm, inputs):
    return aot_autograd(fw_compiler=strict)(gm, inputs)


def fn(x):
    OP


torch.compile(fn, backend=strict)(torch.randn(4))
"""
PASSING = "return torch.empty_like(price)"
IN_AOT = (
    "import traceback\n    if any('_aot_autograd' in frame.filename for frame in traceback.extract_stack()):\n"
    "        raise LookupError()"
)


def reduced(bureau, tmp_path, script):
    """The reduced Case of a script's first failing graph, and its repro."""
    captured = bureau.capture(script)
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    place, source = bureau.graphs / "1", (bureau.folder / "failing.py").read_text()
    in_child(lambda: save(with_definitions(load(place), source), place), tmp_path)
    _, case = bureau.reduce()
    return case, write_repro(case, *forms_for(case)[0])


@pytest.mark.parametrize(
    ("fake", "op", "expected"),
    [
        (f"{IN_AOT}\n    {PASSING}", "return discount(x.sin(), 0.5).cos()", "raises LookupError"),
        pytest.param(
            PASSING, "return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a - 1, (x,))", "passes", marks=SOAK
        ),
    ],
    ids=["a custom op, where AOTAutograd fails", "branches"],
)
def test_the_repro_with_aot_eager(bureau, tmp_path, fake, op, expected):
    case, repro = reduced(bureau, tmp_path, SCRIPT.replace("FAKE", fake).replace("OP", op))
    found = in_child(lambda: dict(run_controls(case, repro, Settings())), tmp_path)
    assert found == {"aot_eager": expected}, repro.text


def test_a_fake_kernel_that_raises_in_aot_eager_is_the_users(bureau, tmp_path):
    source = SCRIPT.replace("FAKE", f"{IN_AOT}\n    {PASSING}").replace("OP", "return discount(x, 0.5)")
    case, repro = reduced(bureau, tmp_path, source.replace("backend=strict", "backend=traced"))
    found = in_child(lambda: list(run_controls(case, repro, Settings())), tmp_path)
    assert found == [("aot_eager", "raises LookupError")] and part_ahead_of_backend(case, "") == ("", "")
