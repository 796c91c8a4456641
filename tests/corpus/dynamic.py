r"""A backend cannot compile a tanh where a size is symbolic: sentences of two lengths, compiled once.

reach: exit 0, 1 op
shows: tanh\(.*dynamic=True.*no lowering for tanh
hides: conv1d|linear
layer: test
"""

import oddlib
import torch
from torch import nn


class Tagger(nn.Module):
    """Tags each word of a sentence by convolutions over its neighbours."""

    def __init__(self, words=50, width=16, depth=12, tags=6):
        super().__init__()
        self.embed, self.tag = nn.Embedding(words, width), nn.Linear(width, tags)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, sentence):
        x = self.embed(sentence)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(x + torch.relu(convolution(x.transpose(1, 2))).transpose(1, 2))
        return self.tag(torch.tanh(x)).log_softmax(dim=-1)


torch.manual_seed(0)
tagger = torch.compile(Tagger().eval(), backend="oddlib_symbol", dynamic=True)
with torch.no_grad():
    for length in (11, 18):
        print(tagger(torch.randint(0, 50, (4, length))).argmax(dim=-1)[0].tolist())
