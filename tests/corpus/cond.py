r"""A backend refuses a cosine inside a branch of torch.cond; outside of a branch it takes it.

reach: exit 0, 1 op
shows: cond\(.*picky_cos_inside
hides: exp\(
layer: test
"""

import picky
import torch


def rotate(angles):
    """The branch for a moving arm."""
    turned = torch.sin(angles) * 0.5 + 1
    turned = turned * torch.cos(angles)
    return turned.clamp(-1, 1) - 0.25


def hold(angles):
    return angles + 0


@torch.compile(backend="picky_cos_inside")
def control(angles):
    """Smooth the angles of an arm, move it if it is far from its rest, and damp what comes out."""
    for _ in range(6):
        angles = torch.cos(angles) + angles.mean()
    angles = torch.cond(angles.abs().sum() > 1, rotate, hold, (angles,))
    for _ in range(6):
        angles = torch.exp(-angles.abs())
    return angles


torch.manual_seed(0)
print(control(torch.randn(9)))
