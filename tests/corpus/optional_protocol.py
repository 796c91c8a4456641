r"""A wrong branch: asking a builtin type for an attribute that it lacks raises nothing while tracing.

source: https://github.com/pytorch/pytorch/issues/198197
reach: exit 0, 20 statements
cause: tracing
layer: soak
"""

import torch
from torch import nn


def supports(kind, name):
    try:
        getattr(kind, name)
    except AttributeError:
        return False
    return True


class Pooling(nn.Module):
    """Takes the pooling of the annotated kind of sequence: weighted for tensors of lengths, plain for anything else."""

    def __init__(self, length_kind):
        super().__init__()
        self.length_kind = length_kind
        self.gate = nn.Linear(7, 1)

    def forward(self, hidden):
        if supports(self.length_kind, "__dlpack__"):
            return (hidden * self.gate(hidden).softmax(dim=1)).sum(dim=1)
        return hidden.mean(dim=1)


class SequenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 7)
        self.pool = Pooling(int)
        self.head = nn.Linear(7, 5)

    def forward(self, tokens):
        return self.head(self.pool(self.embed(tokens)))


torch.manual_seed(5)
classifier = SequenceClassifier().eval()
compiled = torch.compile(classifier, backend="eager")
with torch.no_grad():
    for length in (4, 4, 4):
        logits = compiled(torch.randint(0, 30, (6, length)))
        print("classes", logits.argmax(dim=1).tolist(), "top", round(logits.max().item(), 4))
