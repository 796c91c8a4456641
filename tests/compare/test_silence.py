"""Backends that are right never differ from eager."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from compare_captures import comparisons
from compare_models import LOOSE, MODELS, SHARP, all_of, made, tensor
from layers import SOAK, sampled

pytestmark = pytest.mark.usefixtures("laborious")

SAMPLES = Path(__file__).parents[2] / "samples"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def alarms(function, *calls, backend, train):
    with torch.set_grad_enabled(train):
        compared = comparisons(function, *calls, backend=backend, backward=train)
    assert len(compared) >= len(calls)
    assert [repr(c.compiled_error) for c in compared if c.compiled_error] == []
    assert [repr(c.eager_error) for c in compared if c.eager_error] == []
    return [d.sentence for c in compared for d in c.differences]


# Each model in each dtype, and both of these in inference and in training: pairs, not all triples.
PAIRS = [
    (name, dtype, (row + column) % 2 == 0) for row, name in enumerate(MODELS) for column, dtype in enumerate(DTYPES)
]


@pytest.mark.parametrize(("name", "dtype", "train"), sampled(PAIRS))
def test_aot_eager(name, dtype, train):
    model, inputs = made(name, DTYPES[dtype])
    assert alarms(model, inputs, backend="aot_eager", train=train) == []


@pytest.mark.parametrize("name", ["views", "unwritten"])
def test_eager(name):
    model, inputs = made(name)
    assert alarms(model, inputs, backend="eager", train=True) == []


def sample(name):
    """A module of the samples that does nothing when it is imported."""
    sys.path.insert(0, str(SAMPLES))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(SAMPLES))


class DocsModule(torch.nn.Module):
    """As in samples/docs_module.py and docs_control_flow.py, which run when they are imported."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        x = torch.nn.functional.relu(self.lin(x))
        return x / (torch.abs(x) + 1), torch.sin(x) + torch.cos(x)


def of_samples(dtype):
    module = sample("small_model")
    yield module.SmallModel().to(dtype), [module.make_inputs().to(dtype)]
    yield DocsModule().to(dtype), [torch.randn(10, 100).to(dtype)]


SAMPLES_ON = [
    *(("aot_eager", dtype, train) for dtype, train in (("fp32", True), ("bf16", False), ("fp16", True))),
    *(
        pytest.param("inductor", *each, marks=SOAK)
        for each in (("fp32", False), ("bf16", True), ("fp16", False), ("fp32", True))
    ),
]


@pytest.mark.parametrize(("backend", "dtype", "train"), SAMPLES_ON)
def test_samples(backend, dtype, train):
    for model, inputs in of_samples(DTYPES[dtype]):
        assert alarms(model, inputs, backend=backend, train=train) == []


@torch.no_grad()
def test_densenet():
    model = sample("docs_densenet").DenseNet(odd=torch.tanh, blocks=(3, 3), classes=10).eval()
    assert alarms(model, [torch.randn(1, 3, 64, 64)], backend="aot_eager", train=False) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("functions", [SHARP, pytest.param(LOOSE, marks=SOAK)], ids=["sharp", "random"])
def test_inductor_on_functions(functions):
    calls = []
    for seed in range(3):
        torch.manual_seed(seed)
        calls.append([tensor(12, 10, dtype=torch.float32, grad=True) * (1, 0.01, 30)[seed]])
    assert alarms(all_of(functions), *calls, backend="inductor", train=False) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "dtype"), [("convolutions", "fp32"), pytest.param("transformer with dropout", "bf16", marks=SOAK)]
)
def test_inductor_in_training(name, dtype):
    model, inputs = made(name, DTYPES[dtype])
    assert alarms(model, inputs, inputs, backend="inductor", train=True) == []
