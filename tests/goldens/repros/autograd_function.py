import torch
import minifier_backends.faulty


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
z = torch.compile(Function.apply, backend="faulty_backward")(y, x)
z.backward(grad)

# minifier_backends.errors.LoweringError: no lowering for tanh_backward in a backward graph
# torch TORCH, Python PYTHON, Linux MACHINE
