"""Backends that are right never differ from eager."""

import pytest
import torch
from compare_captures import comparisons
from compare_models import LOOSE, MODELS, SHARP, all_of, made, tensor
from layers import SOAK, sampled

pytestmark = pytest.mark.usefixtures("laborious")

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


@pytest.mark.parametrize(("name", "dtype", "train"), sampled(PAIRS, 4))
def test_aot_eager(name, dtype, train):
    model, inputs = made(name, DTYPES[dtype])
    assert alarms(model, inputs, backend="aot_eager", train=train) == []


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("functions", [SHARP, LOOSE], ids=["sharp", "random"])
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
