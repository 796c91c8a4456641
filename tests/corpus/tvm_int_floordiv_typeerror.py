r"""TypeError while TVM compiles: it divides integers and rounds down.

reach: exit 0, 1 op
shows: rounding_mode="floor".*relax_dynamo|relax_dynamo.*rounding_mode="floor"
hides: linear|softmax
needs: tvm
"""

import torch
from torch import nn
from tvm.relax.frontend.torch import relax_dynamo


class Board(nn.Module):
    """Values the pieces of a board game by what they are and on which row and column they stand."""

    def __init__(self, size=5, kinds=8, width=12):
        super().__init__()
        self.size, self.kind, self.norm = size, nn.Linear(kinds, width), nn.LayerNorm(width)
        self.rows, self.columns = (nn.Parameter(torch.randn(size, width) * 0.2) for _ in range(2))
        self.query, self.key, self.worth = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, pieces, places):
        row = torch.div(places, self.size, rounding_mode="floor")
        column = places - self.size * row
        x = torch.tanh(self.kind(pieces)) + self.rows.index_select(0, row) + self.columns.index_select(0, column)
        x = self.norm(x)
        weights = torch.softmax(torch.matmul(self.query(x), self.key(x).permute(1, 0)) * 0.3, dim=-1)
        return torch.sigmoid(self.worth(x + torch.matmul(weights, x)))


torch.manual_seed(0)
board = Board().eval()
pieces, places = torch.rand(7, 8), torch.randint(0, 25, (7,))
with torch.no_grad():
    compiled = torch.compile(board, backend=relax_dynamo())(pieces, places)
    torch.testing.assert_close(compiled, board(pieces, places), rtol=1e-3, atol=1e-3)
