"""The module of torch.compile's documentation, trained for a step by a backend that works."""

import torch


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        return torch.nn.functional.relu(self.lin(x))


mod = MyModule()
opt_mod = torch.compile(mod, backend="reference_aot")
opt_mod(torch.randn(10, 100)).sum().backward()
print("gradient:", mod.lin.weight.grad.shape)
