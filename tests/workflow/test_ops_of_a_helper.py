"""Custom ops that a helper of the script registers: they are found by their schema, and the others left out."""

import pytest

pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("soak")]

SCRIPT = """
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
        return torch.empty_like(a)  # its kernel gives other strides


    def model(x):
        hidden = torch.ops.bank.swish(x * 2)
        return torch.relu(torch.ops.bank.mix(hidden, x)).sum(0)


    torch.compile(model)(torch.randn(6, 8))
"""


def test_the_op_with_the_wrong_fake_kernel_is_all_that_is_left(project):
    done = project.run(SCRIPT, timeout=270)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["level"] == "dynamo"
    assert "torch.ops.bank.mix(x, x)" in done.repro and "def kernel_of(" in done.repro
    assert "swish" not in done.repro and "contiguous()" in done.repro
