r"""MaxCompilerError, whose text quotes the user's stack: MAX cannot find the largest values of a tensor.

reach: exit 0, 1 op
shows: topk\(\w+, 1\).*max_backend|max_backend.*topk\(\w+, 1\)
hides: linear|softmax
needs: torch_max_backend
"""

import torch
from torch import nn
from torch_max_backend import max_backend


class Specialists(nn.Module):
    """Sends each word to two of five specialists, after a look at the other words."""

    def __init__(self, width=12, specialists=5):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.choose, self.topic = nn.Linear(width, specialists), nn.Linear(width, 6)
        self.specialists = nn.ModuleList(nn.Linear(width, width) for _ in range(specialists))

    def forward(self, x):
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2) * 0.3, dim=-1)
        x = x + weights @ self.value(x)
        share = torch.softmax(self.choose(x), dim=-1)
        best, _ = torch.topk(share, 2, dim=-1)
        share = torch.where(share >= best[..., 1:], share, torch.zeros_like(share))
        for number, specialist in enumerate(self.specialists):
            x = x + torch.relu(specialist(x)) * share[..., number : number + 1]
        return torch.softmax(self.topic(x.mean(dim=1)), dim=-1)


torch.manual_seed(0)
specialists = Specialists().eval()
words = torch.randn(2, 7, 12)
with torch.no_grad():
    compiled = torch.compile(specialists, backend=max_backend)(words)
    torch.testing.assert_close(compiled, specialists(words), rtol=1e-3, atol=1e-3)
