r"""No training: an operator raises within no_grad in the graph, and gradients stay off for the rest of the program.

source: https://github.com/pytorch/pytorch/issues/195488
reach: exit 0, 12 statements
cause: tracing
"""

import torch
from torch import nn


@torch.compile(backend="eager")
def evaluate(weight, table, ids):
    """The mean score of the chosen rows."""
    with torch.no_grad():
        rows = table.index_select(0, ids)
        return (rows @ weight).mean()


def train_step(model, optimizer):
    inputs = torch.randn(16, 6)
    loss = (model(inputs).squeeze(1) - inputs.sum(dim=1)).square().mean()
    if loss.requires_grad:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(46)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    table = torch.randn(30, 6)
    for epoch, ids in enumerate(([1, 2], [28, 30], [5, 6], [7, 8])):
        loss = train_step(model, optimizer)
        try:
            score = evaluate(model.weight[0], table, torch.tensor(ids)).item()
        except IndexError:
            score = float("nan")
        print(f"epoch {epoch}: loss {loss:.5f}, score {score:.5f}")


main()
