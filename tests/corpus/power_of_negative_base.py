"""Nothing is wrong: a power of a negative number that torch's own printed code would get wrong, in inductor.

reach: exit 1
says: agreed
"""

import torch

torch.compile(lambda x: (x * 2).sigmoid() * (-1) ** x.int())(torch.randn(4))
