r"""Not normalised: a forward pre-hook registered on a layer after the first call is left out.

source: https://github.com/pytorch/pytorch/issues/117758
reach: exit 0, 10 statements
cause: tracing
"""

import torch
from torch import nn


class Controller(nn.Module):
    def __init__(self):
        super().__init__()
        self.sense = nn.Linear(4, 10)
        self.act = nn.Linear(10, 2)

    def forward(self, state):
        return torch.tanh(self.act(torch.relu(self.sense(state))))


class Cart:
    """A toy plant with drifting sensors."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.state = torch.randn(1, 4, generator=self.generator)

    def advance(self, action):
        push = torch.cat([action, -action], dim=1)
        self.state = 0.9 * self.state + 0.3 * push + 0.5
        return self.state


def recalibrate(controller, states):
    mean = torch.cat(states).mean(dim=0)
    return controller.sense.register_forward_pre_hook(lambda module, inputs: (inputs[0] - mean,))


def main():
    torch.manual_seed(60)
    controller, cart, states = Controller(), Cart(61), []
    policy = torch.compile(controller, backend="aot_eager")
    with torch.no_grad():
        for step in range(6):
            if step == 3:
                recalibrate(controller, states)
            states.append(cart.state)
            action = policy(cart.state)
            cart.advance(action)
            print("action", [round(value, 4) for value in action[0].tolist()])


if __name__ == "__main__":
    main()
