r"""A wrong warm-up: a counter kept as an attribute of the compiled function does not go up after the first call.

source: https://github.com/pytorch/pytorch/issues/111522
reach: exit 0, 10 statements
cause: tracing
"""

import torch
from torch import nn

WARMUP = 5


def blend(average, parameters):
    """Moves the average towards the parameters, the slower the more often it was called."""
    blend.calls = getattr(blend, "calls", 0) + 1
    rate = 1.0 / blend.calls if blend.calls < WARMUP else 0.05
    return [kept + rate * (now.detach() - kept) for kept, now in zip(average, parameters, strict=True)]


def evaluate(weights, inputs):
    hidden = torch.tanh(inputs @ weights[0].T + weights[1])
    return hidden @ weights[2].T + weights[3]


def main():
    torch.manual_seed(6)
    network = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    average = [parameter.detach().clone() for parameter in network.parameters()]
    compiled_blend = torch.compile(blend, backend="eager")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.3, momentum=0.9)
    for step in range(8):
        inputs = torch.randn(40, 4)
        targets = torch.stack([inputs.sum(dim=1), inputs[:, 0] * inputs[:, 1]], dim=1)
        optimizer.zero_grad()
        loss = (network(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
        average = compiled_blend(average, list(network.parameters()))
        smooth = (evaluate(average, inputs) - targets).square().mean()
        print(f"step {step}: loss {loss.item():.4f}, averaged {smooth.item():.4f}")
    print("blended", blend.calls, "times")


if __name__ == "__main__":
    main()
