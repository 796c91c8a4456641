"""Which backends of torch's own fail on a repro."""

from dataclasses import replace

import pytest
from layers import SOAK
from vocabulary import in_child

from minifier.capturing.slicing import with_definitions
from minifier.data.case import Level
from minifier.data.case.store import load, save
from minifier.data.settings import Settings
from minifier.flow.reports import run_with_controls
from minifier.repro.emit.repro import forms_for, write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch


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


def fn(x):
    OP


torch.compile(fn, backend=strict)(torch.randn(4))
"""
PASSING = "return torch.empty_like(price)"
IN_AOT = (
    "import traceback\n    if any('_aot_autograd' in frame.filename for frame in traceback.extract_stack()):\n"
    "        raise LookupError()"
)


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
    captured = bureau.capture(SCRIPT.replace("FAKE", fake).replace("OP", op))
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    place, source = bureau.graphs / "1", (bureau.folder / "failing.py").read_text()
    in_child(lambda: save(with_definitions(load(place), source), place), tmp_path)
    _, case = bureau.reduce()
    repro = write_repro(case, *forms_for(case)[0])
    found = in_child(lambda: dict(run_with_controls(case, repro, Settings())), tmp_path)
    assert found == {"aot_eager": expected}, repro.text
    assert not list(run_with_controls(replace(case, level=Level.AOT_FORWARD), repro, Settings()))
