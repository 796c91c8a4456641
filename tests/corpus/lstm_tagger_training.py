r"""AOTAutograd raises in the forward pass: an LSTM that is trained saves a None for its backward pass.

source: https://github.com/pytorch/pytorch/issues/158007
reach: exit 0, 2 ops
shows: (lstm|LSTM).*expected all tensors_saved_with_vc_check to be Tensors
"""

import torch
import torch.nn.functional as F
from torch import nn

torch._dynamo.config.allow_rnn = True


class Tagger(nn.Module):
    def __init__(self, tags=5, width=16):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, tags))

    def forward(self, frames):
        scaled = frames / frames.norm(dim=-1, keepdim=True)
        states, _ = self.lstm(scaled)
        return F.log_softmax(self.head(states + scaled), dim=-1)


torch.manual_seed(0)
model = Tagger()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    frames, tags = torch.randn(4, 7, 16), torch.randint(0, 5, (4, 7))
    loss = F.nll_loss(compiled(frames).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
