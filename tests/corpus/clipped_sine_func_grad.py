r"""Wrong numbers: under torch.func.grad Dynamo leaves out the backward that an autograd.Function defines.

source: https://github.com/pytorch/pytorch/issues/193279
reach: exit 0, 12 statements
shows: autograd.Function.*func.*grad|grad\(
"""

import torch
import torch.nn.functional as F


class ClippedSine(torch.autograd.Function):
    """A sine whose gradient is that of the identity, kept small."""

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.01, 0.01)


def loss(weight, bias, x, target):
    hidden = F.layer_norm(x, x.shape[-1:])
    bounded = ClippedSine.apply(weight)
    hidden = F.gelu(hidden @ bounded + bias)
    hidden = hidden / hidden.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    scores = torch.tanh(hidden).mean(dim=-1)
    return F.mse_loss(scores, target) + 0.01 * bias.abs().sum()


torch.manual_seed(0)
inputs = torch.randn(6, 4), torch.zeros(4), torch.randn(3, 6), torch.rand(3)
gradient = torch.func.grad(loss)
expected, compiled = gradient(*inputs), torch.compile(gradient, backend="eager")(*inputs)
print("eager", expected.abs().sum().item(), "compiled", compiled.abs().sum().item())
torch.testing.assert_close(compiled, expected)
