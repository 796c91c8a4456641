r"""Written through: whether the argument is a view of something else is taken from the first call.

source: https://github.com/pytorch/pytorch/issues/139476
reach: exit 0, 11 statements
cause: tracing
"""

import torch


@torch.compile(backend="eager")
def soften(weights, rate):
    """Changes weights of its own in place, and leaves slices of others alone."""
    if weights._base is None:
        weights.mul_(1 - rate)
        return weights
    return weights * (1 - rate)


class Store:
    """Blocks of weights, some on their own, some parts of one large tensor."""

    def __init__(self):
        generator = torch.Generator().manual_seed(68)
        self.alone = torch.randn(4, 5, generator=generator)
        self.large = torch.randn(8, 5, generator=generator)

    def blocks(self):
        yield "alone", self.alone
        yield "upper", self.large[:4]
        yield "lower", self.large[4:]


def main():
    store = Store()
    inputs = torch.linspace(-1, 1, 5)
    for _ in range(2):
        for name, block in store.blocks():
            print(name, round((soften(block, 0.25) @ inputs).sum().item(), 5))
    print("kept", round(store.alone.norm().item(), 5), round(store.large.norm().item(), 5))


main()
