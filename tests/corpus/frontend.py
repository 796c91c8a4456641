r"""Dynamo raises Unsupported before any backend is called: a full graph is asked of a method that prints.

reach: exit 0, 5 statements
shows: fullgraph=True.*print\(
hides: relu|standardise
layer: test
"""

import torch


class Progress:
    """Counts the batches and tells them."""

    def __init__(self):
        self.batches = 0

    def note(self, batch):
        self.batches += 1
        print("batch", self.batches)
        return batch / self.batches


def standardise(batch):
    for _ in range(4):
        batch = (batch - batch.mean()) / (batch.std() + 0.1)
    return batch


@torch.compile(fullgraph=True, backend="eager")
def step(batch, progress):
    batch = standardise(batch)
    batch = progress.note(batch)
    return torch.relu(batch).mean()


torch.manual_seed(0)
progress = Progress()
print(step(torch.randn(16), progress))
