"""The state that a function reaches, kept while the function runs."""

import copy
import random
import types
from collections import OrderedDict, deque
from dataclasses import dataclass, field

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from minifier.flow.embed.recording import state_kept

model = torch.nn.Linear(3, 2)
adam = torch.optim.Adam(model.parameters())
sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(sgd, 1)


def train(x):
    model(x).sum().backward()
    for optimizer in (adam, sgd):
        optimizer.step()
    schedule.step()
    adam.zero_grad()


def of_training():
    parts = [each.state_dict() for each in (model, adam, sgd, schedule)]
    return repr(copy.deepcopy(parts)), [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("steps", [0, 2])
def test_optimizers_are_restored_before_and_after_their_first_step(steps):
    x = torch.randn(4, 3)
    for _ in range(steps):
        train(x)
    before, (groups, count) = of_training(), (adam.param_groups[0], len(adam.state))
    with state_kept(train, [x]):
        train(x)
        assert repr(of_training()) != repr(before)
    assert of_training() == before and adam.param_groups[0] is groups and len(adam.state) == count
    train(x)
    assert of_training() != before


counted, queue, buffer = {"steps": [0]}, deque([1, 2], maxlen=2), torch.zeros(2)
here = types.ModuleType("here")
here.__file__, here.tensor, here.deeper = __file__, torch.zeros(2), types.ModuleType("deeper")
here.deeper.__file__, here.deeper.tensor = __file__, torch.zeros(2)


def changes_globals():
    counted["steps"][0] += 1
    counted["new"] = {}
    queue.append(3)
    return helper()


def helper():
    def inner():
        return [buffer.add_(1) for _ in range(1)]

    here.tensor.add_(1), here.deeper.tensor.add_(1)
    return inner(), changes_globals  # a cycle


@dataclass
class Trainer:
    model: torch.nn.Module
    seen: list = field(default_factory=list)
    steps: int = 0

    def run(self):
        self.steps += 1
        self.seen.append({self.steps})
        self.new = 0
        self.model.seen["inner"].append(1)
        return self._more()

    def _more(self):
        return helper()


def trainer():
    module = torch.nn.Linear(1, 1)
    module.seen = OrderedDict(inner=[])
    return Trainer(module)


def state(*more):
    return copy.deepcopy((counted, queue, buffer.tolist(), here.tensor.tolist(), here.deeper.tensor.tolist(), more))


def no_grad(function):
    return torch.no_grad()(function)


FUNCTIONS = {
    "a function": lambda: changes_globals,
    "a helper alone": lambda: lambda: helper(),
    "a wrapped function": lambda: no_grad(changes_globals),
    "a default": lambda: lambda function=changes_globals: function(),
    "a function in a container": lambda: lambda: [changes_globals][0](),
    "a method": lambda: trainer().run,
    "an object in a closure": lambda: (lambda each: lambda: each["x"][0].run())({"x": (trainer(),)}),
    "a class": lambda: lambda: trainer().run(),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_values_that_a_function_reaches_through_others_are_restored(what):
    function = FUNCTIONS[what]()
    before = state()
    with state_kept(function, []):
        function()
        assert state() != before
    assert state() == before and queue.maxlen == 2


def test_an_object_of_the_users_is_restored_as_it_was():
    each = trainer()
    seen, inner = each.seen, each.model.seen["inner"]
    with state_kept(each.run, []):
        each.run()
    assert vars(each).keys() == {"model", "seen", "steps"} and each.steps == 0
    assert each.seen is seen and seen == [] and each.model.seen["inner"] is inner and inner == []


def test_containers_among_the_inputs_are_restored_to_any_depth():
    tensor, items, names = torch.ones(2), [1], {"a"}
    nested = current = {}
    for _ in range(5000):  # deeper than Python's stack
        current["next"] = current = {}
    inputs = ({"x": [tensor, items]}, (names,), nested)
    before = repr(inputs[:2])
    with state_kept(len, inputs):
        tensor.mul_(2), items.clear(), names.add("b"), inputs[0].update(y=0)
        current["next"] = 0
    assert repr(inputs[:2]) == before and current == {}


@pytest.mark.parametrize("steps", [0, 1])
def test_lazy_modules_stay_lazy(steps):
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())
    for _ in range(steps):
        lazy(torch.randn(4, 5))
    before, kinds = repr(lazy), [type(each) for each in (*lazy.parameters(), *lazy.buffers())]
    with state_kept(lazy, []):
        lazy(torch.randn(2, 5)).sum().backward()
        assert "Lazy" not in repr(lazy)
    assert repr(lazy) == before and [type(each) for each in (*lazy.parameters(), *lazy.buffers())] == kinds
    size = 5 if steps else 7
    lazy(torch.randn(2, size)).sum().backward()
    assert lazy[0].weight.grad.shape == (3, size) and lazy[1].num_batches_tracked == steps + 1


def test_a_tensor_that_gets_other_memory_has_its_own_again():
    tensor = torch.nn.Parameter(torch.ones(2))
    place = tensor.data_ptr()
    with state_kept(len, [tensor]):
        tensor.data = torch.zeros(3, dtype=torch.float64)
        tensor.sum().backward()
    assert tensor.tolist() == [1, 1] and tensor.dtype == torch.float32 and tensor.grad is None
    assert tensor.data_ptr() == place


def test_what_only_other_packages_reach_is_left_alone():
    settings = types.SimpleNamespace(count=0)
    own = random.Random(0)

    def function():
        settings.count += 1
        return own.random()

    with state_kept(function, []):
        drawn = function()
    assert settings.count == 1 and own.random() != drawn


def tensors_of_many_kinds():
    two = TwoTensor(torch.ones(2), torch.ones(2))
    fake = FakeTensorMode().from_tensor(torch.ones(2))
    with torch.inference_mode():
        inference = torch.ones(2)
    lazy = torch.nn.LazyLinear(2, device="meta").weight
    return [two, fake, inference, lazy, torch.eye(2).to_sparse(), torch.ones(2, device="meta")]


def test_tensors_without_memory_of_their_own_are_no_obstacle():
    tensor = torch.ones(2)
    inputs = [*tensors_of_many_kinds(), tensor]
    with state_kept(len, inputs):
        inputs[0].add_(1), tensor.add_(1)
    assert tensor.tolist() == [1, 1] and inputs[0].a.tolist() == [2, 2]


def test_a_view_has_its_base_restored():
    base = torch.ones(4)
    with state_kept(len, [base[1:3]]):
        base.resize_(9).zero_()
    assert base.tolist() == [1] * 4
