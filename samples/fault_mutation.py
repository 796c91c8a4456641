"""Nothing fails, and an update is lost: the compiled function should add to the counter that it is given."""

import minifier_backends.faulty
import torch


def step(counter, x):
    counter.add_(1)
    return torch.tanh(x) * counter


compiled = torch.compile(step, backend="faulty_mutation")
counter, other = torch.zeros(()), torch.zeros(())
step(counter, torch.ones(3))
compiled(other, torch.ones(3))
print("eager:", counter.item(), "compiled:", other.item())
