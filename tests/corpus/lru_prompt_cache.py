r"""A side effect is lost: Dynamo forgets that an OrderedDict of the caller was reordered by move_to_end.

source: https://github.com/pytorch/pytorch/issues/198189
reach: exit 0, 6 statements
shows: move_to_end
"""

from collections import OrderedDict

import torch
from torch import nn


class PromptEncoder(nn.Module):
    """Adds the vector of a prompt, kept in a cache that drops the prompt that was not used for longest."""

    def __init__(self, width=8, room=2):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.cache = OrderedDict()
        self.room = room

    def forward(self, x, prompt):
        if prompt in self.cache:
            self.cache.move_to_end(prompt)
        else:
            self.cache[prompt] = torch.tanh(self.project(x.mean(dim=0)))
        return torch.softmax(x + self.cache[prompt], dim=-1)


torch.manual_seed(0)
encoder = PromptEncoder().eval()
compiled = torch.compile(encoder, backend="eager", fullgraph=True)
with torch.no_grad():
    for prompt in ("cat", "dog", "cat", "owl"):
        compiled(torch.randn(4, 8), prompt)
        while len(encoder.cache) > encoder.room:
            encoder.cache.popitem(last=False)
print(list(encoder.cache))
assert "cat" in encoder.cache, "the prompt that was just used has been dropped"
