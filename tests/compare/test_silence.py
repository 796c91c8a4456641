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
KINDS = pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])


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


@pytest.mark.parametrize(("name", "dtype", "train"), sampled(PAIRS, 2))
def test_aot_eager(name, dtype, train):
    model, inputs = made(name, DTYPES[dtype])
    assert alarms(model, inputs, backend="aot_eager", train=train) == []


@pytest.mark.parametrize("name", ["transformer", "views", "is changed", "unwritten"])
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


@KINDS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_samples(backend, dtype, train):
    check_samples(backend, dtype, train)


@pytest.mark.parametrize(("dtype", "train"), [("fp32", False), pytest.param("bf16", True, marks=SOAK)])
def test_samples_on_inductor(dtype, train):
    check_samples("inductor", dtype, train)


@pytest.mark.usefixtures("soak")
@pytest.mark.parametrize(("dtype", "train"), [("fp32", True), ("bf16", False), ("fp16", False), ("fp16", True)])
def test_more_samples_on_inductor(dtype, train):
    check_samples("inductor", dtype, train)


def check_samples(backend, dtype, train):
    for model, inputs in of_samples(DTYPES[dtype]):
        assert alarms(model, inputs, backend=backend, train=train) == []


@torch.no_grad()
def test_densenet():
    model = sample("docs_densenet").DenseNet(odd=torch.tanh, blocks=(3, 3), classes=10).eval()
    assert alarms(model, [torch.randn(1, 3, 64, 64)], backend="aot_eager", train=False) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("functions", [SHARP, LOOSE], ids=["sharp", "random"])
def test_inductor_on_functions(functions):
    calls = []
    for seed in range(6):
        torch.manual_seed(seed)
        calls.append([tensor(12, 10, dtype=torch.float32, grad=True) * (1, 0.01, 30)[seed % 3]])
    assert alarms(all_of(functions), *calls, backend="inductor", train=False) == []


@pytest.mark.timeout(600)
def test_inductor_in_training():
    check_inductor_in_training("convolutions", "fp32")


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(600)
def test_inductor_in_training_with_dropout():
    check_inductor_in_training("transformer with dropout", "bf16")


def check_inductor_in_training(name, dtype):
    model, inputs = made(name, DTYPES[dtype])
    assert alarms(model, inputs, inputs, backend="inductor", train=True) == []
