"""Nothing fails, the forward pass is right, and the gradient that goes through the tanh is 2 % too large."""

import minifier_backends.faulty
import torch


def gradient(function):
    x = torch.linspace(-1, 1, 5, requires_grad=True)
    function(x).sum().backward()
    return x.grad


def f(x):
    return torch.tanh(x) * 3


compiled = torch.compile(f, backend="faulty_gradient")
ratio = (gradient(compiled) / gradient(f)).mean().item()
print(f"compiled is {ratio:.2f} times eager's")
