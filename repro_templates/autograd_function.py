import torch


def fn(x):
    return torch.ops.aten.tanh(x)


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return fn(x)


x = torch.randn(2, 3, requires_grad=True)
y = torch.compile(Function.apply, backend="eager")(x)
y.backward(torch.randn_like(y))
