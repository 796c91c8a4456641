r"""Wrong gradients: an autograd.Function that changes its input in place and marks it dirty loses its backward.

source: https://github.com/pytorch/pytorch/issues/133491
reach: exit 0, 16 statements
cause: aliasing/mutation
"""

import torch
from torch import nn


class DampInPlace(torch.autograd.Function):
    """Halves in place; lets a tenth of the gradient through."""

    @staticmethod
    def forward(ctx, tensor):
        tensor.mul_(0.5)
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 0.1


class Damped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(7, 15)
        self.second = nn.Linear(15, 1)

    def finish(self, hidden):
        return self.second(torch.relu(DampInPlace.apply(hidden)))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.finish = torch.compile(model.finish, backend="aot_eager")
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, inputs, targets):
        hidden = self.model.first(inputs)
        loss = (self.finish(hidden).squeeze(1) - targets).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        gradient = self.model.first.weight.grad.norm().item()
        self.optimizer.step()
        return loss.item(), gradient


if __name__ == "__main__":
    torch.manual_seed(28)
    trainer = Trainer(Damped())
    for _ in range(4):
        inputs = torch.randn(30, 7)
        print("loss {:.5f}, gradient {:.5f}".format(*trainer.step(inputs, inputs[:, :3].sum(dim=1))))
