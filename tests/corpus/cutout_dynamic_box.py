r"""Inductor raises LoweringException: a box of an image is overwritten whose corners are read from a tensor.

reach: exit 0, 3 ops
shows: item\(\).*LoweringException
hides: linear|scaled_dot_product
"""

import torch
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


class Occluded(nn.Module):
    """Covers a square of an image, then tells what is on it; to see which places matter."""

    def __init__(self, width=12):
        super().__init__()
        self.enter, self.patches = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, width, 4, stride=4)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, image, corners):
        image = torch.tanh(self.enter(image)).clone()
        first, last = corners[0].item(), corners[1].item()
        image[:, :, first:last, first:last] = 0.25
        x = self.norm(self.patches(image).flatten(2).mT)
        x = x + nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))
        return self.head(nn.functional.gelu(x).mean(dim=1))


torch.manual_seed(0)
model = Occluded().eval()
image, corners = torch.rand(2, 3, 16, 16), torch.tensor([2, 7])
with torch.no_grad():
    expected = model(image, corners)
    torch.testing.assert_close(torch.compile(model)(image, corners), expected, rtol=1e-3, atol=1e-3)
