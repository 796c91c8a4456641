"""Backends that are right never differ from eager."""

import pytest
import torch
from compare_captures import comparisons
from compare_models import MODELS, made

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def alarms(name, dtype, backend, *, train, seed=0):
    model, inputs = made(name, dtype, seed)
    with torch.set_grad_enabled(train):
        compared = comparisons(model, *inputs, backend=backend, backward=train, seed=seed)
    assert compared and any(c.rows for c in compared)
    assert [repr(c.compiled_error) for c in compared if c.compiled_error] == []
    return [d.sentence for c in compared for d in c.differences]


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_aot_eager(name, dtype, train):
    assert alarms(name, DTYPES[dtype], "aot_eager", train=train) == []


@pytest.mark.parametrize("name", ["transformer", "views", "is changed", "unwritten"])
def test_eager(name):
    assert alarms(name, torch.float32, "eager", train=True) == []
