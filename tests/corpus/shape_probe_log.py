r"""Nothing logged: a probe made while tracing appends to a list of the enclosing function, and the list stays empty.

source: https://github.com/pytorch/pytorch/issues/197896
reach: exit 0, 15 statements
cause: tracing
"""

import torch
from torch import nn


def make_model(width, log):
    class Probe:
        """Writes down what passes through a block."""

        def __init__(self, name):
            self.name = name

        def note(self, tensor):
            log.append((self.name, tuple(tensor.shape)))

    class Block(nn.Module):
        def __init__(self, name, fan_in, fan_out):
            super().__init__()
            self.name = name
            self.linear = nn.Linear(fan_in, fan_out)

        def forward(self, tensor):
            tensor = torch.relu(self.linear(tensor))
            Probe(self.name).note(tensor)
            return tensor

    return nn.Sequential(Block("stem", 8, width), Block("middle", width, width), nn.Linear(width, 3))


class Service:
    def __init__(self):
        self.log = []
        self.model = make_model(16, self.log)
        self.model.compile()

    @torch.no_grad()
    def answer(self, request):
        return self.model(request).softmax(dim=-1)


torch.manual_seed(12)
service = Service()
for size in (2, 2, 2):
    answer = service.answer(torch.randn(size, 8))
    print("answered", answer.argmax(dim=-1).tolist())
print("passes through blocks:", len(service.log))
for name, shape in service.log[:2]:
    print(" ", name, shape)
