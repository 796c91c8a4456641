r"""Wrong gradients at the second call: a backward hook registered after the first call is left out.

source: https://github.com/pytorch/pytorch/issues/115750
reach: exit 0, 9 statements
shows: register_full_backward_hook
"""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.LayerNorm(16))
        self.value = nn.Linear(16, 1)

    def forward(self, state):
        return self.value(self.body(state)).squeeze(-1)


def damp(module, grad_input, grad_output):
    """Halves what flows back through the value head."""
    return tuple(None if g is None else g / 2 for g in grad_input)


torch.manual_seed(0)
critic = Critic()
compiled = torch.compile(critic, backend="aot_eager")
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for epoch in range(2):
    if epoch == 1:
        critic.value.register_full_backward_hook(damp)
    states, returns = torch.randn(16, 6), torch.randn(16)
    optimizer.zero_grad()
    (critic(states) - returns).pow(2).mean().backward()
    expected = critic.body[0].weight.grad.clone()
    optimizer.zero_grad()
    (compiled(states) - returns).pow(2).mean().backward()
    torch.testing.assert_close(critic.body[0].weight.grad, expected)
    optimizer.step()
    print(epoch, "agrees")
