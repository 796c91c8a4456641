r"""AOTInductor cannot compile an op of an exported program into a package.

reach: exit 0, 1 op
shows: import twisted.*def aot_inductor\(.*twist\.default\(x\)
hides: torch\.compile\([^)]*options=
"""

import torch
import twisted


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, *, scale):
        return twisted.twist(self.linear(x).sin()).cos() * scale


program = torch.export.export(Model().eval(), (torch.randn(3, 4),), {"scale": torch.tensor(2.0)})
torch._inductor.aoti_compile_and_package(program, inductor_configs={"max_autotune": False})
