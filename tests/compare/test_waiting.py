"""Which devices a compared call waits for."""

import pytest
import torch

from minifier.torch_side.compare import results


class Elsewhere(torch.Tensor):
    """A tensor that says it is on a CUDA device."""

    @property
    def device(self):
        return torch.device("cuda", self.index)


def at(index, requires_grad=False):
    tensor = torch.ones(1, requires_grad=requires_grad).as_subclass(Elsewhere)
    tensor.index = index
    return tensor


@pytest.fixture
def waited(monkeypatch):
    """The indices of the CUDA devices that are waited for."""
    found = []

    class Cuda:
        @staticmethod
        def synchronize(device):
            found.append(device.index)

    monkeypatch.setattr(results, "_modules_in_use", lambda: iter([("cuda", Cuda)]))
    return found


def test_the_devices_of_arguments_and_of_nested_results_are_waited_for(waited):
    results.call_and_wait(lambda x, y: {"a": [at(1)], "b": (3, at(0))}, [at(0), 2.0])
    assert sorted(waited) == [0, 1]


def test_the_current_device_is_waited_for_without_a_tensor_on_any(waited):
    results.call_and_wait(lambda x: x, [torch.ones(1)])
    assert waited == [None]


def test_the_devices_of_observed_results_are_waited_for(waited):
    results.observe(lambda x: [at(3)], [torch.ones(1)])
    assert waited == [3]
