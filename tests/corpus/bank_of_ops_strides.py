r"""Inductor fails at a custom op whose fake kernel gives other strides; a helper registers it, and others.

reach: exit 0, 1 op
says: at fault  the fake kernel of bank\.mix
run: --explain
shows: def kernel_of\(.*contiguous\(\).*torch\.ops\.bank\.mix\(x, x\)
hides: swish
"""

import torch

LIB = torch.library.Library("bank", "DEF")


def kernel_of(schema):
    def add(kernel):
        LIB.define(schema)
        LIB.impl(schema.partition("(")[0], kernel, "CPU")
        return kernel

    return add


@kernel_of("swish(Tensor x) -> Tensor")
def swish(x):
    return x * torch.sigmoid(x)


@kernel_of("mix(Tensor a, Tensor b) -> Tensor")
def mix(a, b):
    return (a + b).transpose(0, 1).contiguous().transpose(0, 1)


@torch.library.register_fake("bank::swish", lib=LIB)
def _(x):
    return torch.empty_like(x)


@torch.library.register_fake("bank::mix", lib=LIB)
def _(a, b):
    return torch.empty_like(a)


torch.compile(lambda x: torch.relu(torch.ops.bank.mix(torch.ops.bank.swish(x * 2), x)).sum(0))(torch.randn(6, 8))
