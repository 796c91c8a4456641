r"""The program fails by itself: a number that the embedding does not have, an assertion on the device, in eager too.

reach: exit 1
says: by itself
needs: cuda
"""

import torch
from torch import nn


class Language(nn.Module):
    """Guesses the language of a text from its syllables."""

    def __init__(self, syllables=300, width=32, languages=4, length=20):
        super().__init__()
        self.embed, self.place = nn.Embedding(syllables, width), nn.Parameter(torch.randn(length, width) * 0.1)
        self.change = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU())
        self.language = nn.Linear(2 * width, languages)

    def forward(self, text):
        return self.language(self.change(self.embed(text) + self.place).mean(dim=1)).log_softmax(dim=-1)


torch.manual_seed(0)
language = torch.compile(Language().cuda().eval())
text = torch.randint(0, 300, (6, 20), device="cuda")
with torch.no_grad():
    print("all syllables known", language(text).argmax(dim=-1).tolist())
    text[2, 11] = 304
    print("one unknown", language(text).argmax(dim=-1).tolist())
