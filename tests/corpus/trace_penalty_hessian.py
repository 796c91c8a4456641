"""Wrong numbers: in the hessian of a trace the zeros beside the diagonal are filled with its value.

source: https://github.com/pytorch/pytorch/issues/190855
reach: exit 0, 3 ops
shows: trace|diag
"""

import torch
import torch.nn.functional as F
from torch.func import hessian


def penalty(covariance):
    """A barrier on a covariance: its trace, its size, and a soft limit on each entry."""
    size = covariance.pow(2).sum()
    spread = torch.trace(covariance) * size
    limit = F.softplus(covariance).mean() + torch.tanh(covariance).sum()
    return spread + 0.1 * limit


torch.manual_seed(0)
covariance = torch.randn(3, 3)
expected, compiled = hessian(penalty)(covariance), torch.compile(hessian(penalty))(covariance)
print("eager", expected.flatten()[:4], "compiled", compiled.flatten()[:4])
