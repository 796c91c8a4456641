r"""The old activation: nn.ReLU.forward is replaced for a while, and the model compiled before does not notice.

source: https://github.com/pytorch/pytorch/issues/131505
reach: exit 0, 10 statements
cause: tracing
"""

import contextlib

import torch
from torch import nn


def stepped(self, tensor):
    """A rectifier with four steps."""
    return torch.round(tensor.clamp(0, 1) * 4) / 4


@contextlib.contextmanager
def simulated_quantisation():
    plain = nn.ReLU.forward
    nn.ReLU.forward = stepped
    try:
        yield
    finally:
        nn.ReLU.forward = plain


def build():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 12),
        nn.ReLU(),
        nn.Linear(12, 3),
    )


@torch.no_grad()
def error_rate(model, images, labels):
    logits = model(images)
    return (logits.argmax(dim=1) != labels).float().mean().item(), logits.norm().item()


def main():
    torch.manual_seed(16)
    model = torch.compile(build().eval(), backend="eager")
    images, labels = torch.randn(40, 1, 8, 8), torch.randint(0, 3, (40,))
    print("plain: error {:.3f}, norm {:.4f}".format(*error_rate(model, images, labels)))
    with simulated_quantisation():
        print("stepped: error {:.3f}, norm {:.4f}".format(*error_rate(model, images, labels)))
    print("plain: error {:.3f}, norm {:.4f}".format(*error_rate(model, images, labels)))


if __name__ == "__main__":
    main()
