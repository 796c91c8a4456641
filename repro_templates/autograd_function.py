import torch


def fn(grad, x):
    return torch.ops.aten.tanh_backward(grad, x)


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, x):
        ctx.save_for_backward(x)
        return torch.zeros(2, 3)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return fn(grad, x), None


grad = torch.randn(2, 3)
x = torch.randn(2, 3)
y = torch.randn(2, 3, requires_grad=True)
z = torch.compile(Function.apply, backend="eager")(y, x)
z.backward(grad)
