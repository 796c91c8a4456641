r"""Dynamo raises while it writes guards: layer_norm of a jagged tensor that is made inside the compiled code.

source: https://github.com/pytorch/pytorch/issues/183369
reach: exit 0, 4 statements
shows: list index out of range
"""

import torch
import torch.nn.functional as F
from torch import nn


class RaggedPooling(nn.Module):
    """Embeds packed sequences of different lengths and normalises them as one jagged tensor."""

    def __init__(self, width=12):
        super().__init__()
        self.embed, self.gate, self.head = nn.Embedding(30, width), nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, tokens, offsets):
        hidden = torch.tanh(self.embed(tokens))
        hidden = hidden * torch.sigmoid(self.gate(hidden))
        ragged = torch.nested.nested_tensor_from_jagged(hidden, offsets)
        normed = F.layer_norm(ragged, [12]).values()
        return self.head(F.gelu(normed)).log_softmax(dim=-1).sum()


torch.manual_seed(0)
model = RaggedPooling()
tokens, offsets = torch.randint(0, 30, (20,)), torch.tensor([0, 6, 11, 14, 20])
print(torch.compile(model)(tokens, offsets))
