r"""A backend of a table of kernels and methods computes gelu by a fast approximation.

reach: exit 0, 1 op
shows: \nKERNELS = \{\}\n.*@kernel_for\(torch\.nn\.functional\.gelu\)\ndef gelu\(.*class Runner\(.*call_function\(
hides: METHODS|def relu|def add\(a|def softmax|operator
"""

import operator

import torch

KERNELS = {}
METHODS = {"contiguous": torch.Tensor.contiguous, "mean": torch.mean}


def kernel_for(*targets):
    def add(kernel):
        for target in targets:
            KERNELS[target] = kernel
        return kernel

    return add


@kernel_for(torch.relu)
def relu(x):
    return x * (x > 0)


@kernel_for(operator.add, torch.add)
def add(a, b):
    return b + a


@kernel_for(torch.softmax)
def softmax(x, dim=-1):
    e = torch.exp(x)
    return e / e.sum(dim, keepdim=True)


@kernel_for(torch.nn.functional.gelu)
def gelu(x, approximate="none"):
    return x * torch.sigmoid(1.702 * x)


class Runner(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        return KERNELS.get(target, target)(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        return METHODS[target](*args, **kwargs)


def tabled(gm, example_inputs):
    return Runner(gm).run


def model(x):
    hidden = torch.relu(x) + 1
    hidden = torch.nn.functional.gelu(hidden.contiguous())
    return torch.softmax(hidden, dim=-1).mean(0)


torch.manual_seed(0)
x = torch.randn(4, 8)
torch.testing.assert_close(torch.compile(model, backend=tabled)(x), model(x))
