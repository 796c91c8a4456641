"""A configuration holds an object of the script, which the failure does not need.

reach: exit 0, 1 op
shows: tanh
hides: Refuse|inductor
layer: soak
"""

import oddlib
import torch
import torch._inductor.config


class Refuse:
    def __call__(self, graph):
        raise NotImplementedError("refused")

    def uuid(self):
        return b"1"


torch._inductor.config.post_grad_custom_post_pass = Refuse()
torch.compile(lambda x: torch.relu(torch.tanh(x + 1)) * 2, backend="oddlib_tanh")(torch.ones(3))
