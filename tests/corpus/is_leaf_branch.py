r"""A wrong branch: whether the argument is a leaf is taken from the first call.

source: https://github.com/pytorch/pytorch/issues/139476
reach: exit 0, 11 statements
cause: tracing
"""

import torch


@torch.compile(backend="eager")
def penalty(tensor, strength):
    """Weights are pulled to zero, activations towards their mean."""
    if tensor.is_leaf:
        return strength * tensor.square().sum()
    return strength * (tensor - tensor.mean()).square().mean()


def forward(inputs, weight, bias):
    return torch.relu(inputs * weight + bias)


def main():
    torch.manual_seed(32)
    weight = (torch.randn(16, 10) / 3).requires_grad_()
    bias = (torch.randn(16, 10) / 9).requires_grad_()
    optimizer = torch.optim.Adam([weight, bias], lr=0.01)
    for step in range(5):
        hidden = forward(torch.randn(16, 10), weight, bias)
        loss = (hidden.sum(dim=1) - 1).square().mean()
        loss = loss + penalty(weight, 0.01) + penalty(hidden, 0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}")


main()
