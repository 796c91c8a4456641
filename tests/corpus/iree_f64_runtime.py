r"""IREE's code fails as it runs, in one of two forms that a race decides: values become double within the graph.

reach: exit 0, 2 ops
shows: (double|float64).*iree_turbine
hides: rsqrt|tanh
needs: iree
"""

import torch


def pull(place, charge):
    """The force on each charge by all of them."""
    apart = place.unsqueeze(0) - place.unsqueeze(1)
    nearness = torch.rsqrt(apart.square().sum(dim=-1) + 0.05)
    return (apart * (nearness**3 * charge.view(1, -1)).unsqueeze(-1)).sum(dim=1)


@torch.compile(backend="iree_turbine")
def move(place, speed, charge):
    """A few steps of time; the energy of the motion is added up in double precision."""
    for _ in range(3):
        speed = speed - 0.01 * pull(place, charge)
        place = place + 0.01 * speed
    motion = 0.5 * charge.double() * speed.double().square().sum(dim=-1)
    spread = (place - place.mean(dim=0)).square().sum(dim=-1).sqrt().mean()
    return place, speed, motion, spread


torch.manual_seed(0)
place, speed, motion, spread = move(torch.randn(5, 3), 0.2 * torch.randn(5, 3), torch.rand(5) + 0.2)
print("energy", motion.sum().item(), "spread", spread.item())
