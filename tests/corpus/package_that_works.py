r"""Nothing fails: a package of AOTInductor that is given what is no tensor, and changes what it holds, does its work.

reach: exit 1
says: \[42\.0, 78\.0, 114\.0\] AOTICompiledModel
"""

import sys

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.x = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, times: int, *, shift):
        self.count.add_(1)
        return (x + 0.5).relu() * self.x * times * self.count + shift


inputs, shift = (torch.ones(3, 2), 4), torch.tensor(1.0)
program = torch.export.export(Model().eval(), inputs, {"shift": shift})
loaded = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
print([loaded(*inputs, shift=shift).sum().item() for _ in range(3)], type(loaded).__name__, file=sys.stderr)
