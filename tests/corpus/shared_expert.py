r"""A wrong branch: whether two arguments are the same object is decided at the first call and never asked again.

source: https://github.com/pytorch/pytorch/issues/196173
reach: exit 0, 14 statements
cause: tracing
"""

import torch


class Expert:
    def __init__(self, width, seed):
        generator = torch.Generator().manual_seed(seed)
        self.weight = torch.randn(width, width, generator=generator) / width**0.5

    def apply(self, hidden):
        return torch.tanh(hidden @ self.weight)


@torch.compile(backend="eager")
def hand_over(hidden, current, following):
    """Leaves the hidden state alone when it stays with its expert."""
    if current is following:
        return hidden
    return following.apply(hidden - hidden.mean(dim=-1, keepdim=True))


def plan(experts, steps):
    """Goes from each expert to the next; the last round stays where it is."""
    for step in range(steps):
        last = step == steps - 1
        yield experts[step], experts[step] if last else experts[step + 1]


def main():
    torch.manual_seed(0)
    experts = [Expert(10, seed) for seed in range(4)]
    hidden = torch.randn(5, 10)
    for current, following in plan(experts, 3):
        hidden = hand_over(hidden, current, following)
        print("norm", round(hidden.norm().item(), 4))


main()
