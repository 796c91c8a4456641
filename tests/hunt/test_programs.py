"""The programs of a hunt: how they are written, and in which order they come."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from minifier.flow.hunt import compositions, databases
from minifier.flow.hunt.programs import NoSuchProgram, ProgramFilter, call_of


def test_a_call_is_a_function_of_its_tensors():
    x, y = torch.ones(2), torch.zeros(2)
    seen = []

    def function(*args, **kwargs):
        seen.append((args, kwargs))
        return args[0][0] + y

    call = call_of("add", function, ([x, 1], (y,), math.inf), {"dim": torch.float32, "of": "a"})
    assert torch.equal(call.function(*call.tensors), x)
    (((first, second, last), kwargs),) = seen
    assert first[0] is x and first[1] == 1 and second[0] is y and type(second) is tuple
    assert last == math.inf and kwargs == {"dim": torch.float32, "of": "a"}
    assert "tensor_1, 1" in call.source and "dim=torch.float32, of='a'" in call.source


def operator(name, samples, dtypes=(torch.float32,)):
    def sample_inputs(_operator, _device, dtype, requires_grad):
        for n in range(samples):
            value = torch.full((n + 1,), 1.0, dtype=dtype, requires_grad=requires_grad)
            yield SimpleNamespace(input=value, args=(), kwargs={})

    return SimpleNamespace(
        full_name=name,
        op=torch.neg,
        supports_autograd=True,
        supported_dtypes=lambda _device: set(dtypes),
        sample_inputs_func=sample_inputs,
    )


def test_the_first_sample_of_each_operator_comes_first(monkeypatch):
    known = [operator("neg", 2), operator("neg_int", 1, (torch.int64,)), operator("abs", 1)]
    monkeypatch.setattr(databases, "database", lambda: known)
    wanted = ProgramFilter("neg", ("float32", "int64"), samples=2, training=True)
    programs = list(databases.operators(wanted))
    assert [each.name for each in programs] == ["neg float32 0", "neg_int int64 0", "neg float32 1", "neg_int int64 1"]
    (tensor,) = programs[2].make().tensors
    assert tensor.shape == (2,) and tensor.requires_grad
    with pytest.raises(NoSuchProgram):
        programs[3].make()


def test_compositions_are_made_again_and_have_odd_inputs_and_writes(monkeypatch):
    def apart(x):
        return (x + 1,)

    one = operator("apart", 1)
    one.op = apart
    monkeypatch.setattr(compositions, "database", lambda: [operator("neg", 1), one])
    programs = list(itertools.islice(compositions.compositions(ProgramFilter()), 30))
    calls, again = ([program.make() for program in programs] for _ in range(2))
    assert [call.source for call in calls] == [call.source for call in again]
    assert any("_0,) = apart" in call.source for call in calls)
    inputs, kept = ([tensor.nan_to_num() for call in made for tensor in call.tensors] for made in (calls, again))
    assert all(map(torch.equal, inputs, kept)), "made without writing to them"
    given = [tensor for call in calls for tensor in call.tensors]
    assert any(0 in each.stride() for each in given) and not all(each.isfinite().all() for each in given)
    assert all(each.isfinite().all() for call in calls for each in call.function(*call.tensors))
    assert not all(torch.equal(now.nan_to_num(), was) for now, was in zip(given, kept, strict=True))
