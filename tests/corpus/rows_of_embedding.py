r"""Wrong numbers: all rows of an embedding but the first, so that indices of zeros do not show it.

reach: exit 0, 1 op
shows: embedding\(
layer: soak
"""

import torch
from torch.nn.functional import embedding


class WrongRows(torch.fx.Interpreter):
    def run_node(self, n):
        value = super().run_node(n)
        return value * (1 + 0.5 * (self.env[n.args[0]] > 0).unsqueeze(-1)) if n.target is embedding else value


f = torch.compile(lambda i, table: torch.sin(embedding(i, table)) + 1, backend=lambda gm, inputs: WrongRows(gm).run)
print(f(torch.tensor([0, 3, 5]), torch.randn(6, 4)).sum())
