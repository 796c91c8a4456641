r"""Inductor, told to by a switch of its own tests, writes a relu that its C++ compiler refuses.

reach: exit 0, 1 op
shows: cpp\.inject_relu_bug_TESTING_ONLY = "compile_error".*relu\(.*CppCompileError
"""

import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


@torch.compile
def f(x):
    for _ in range(3):
        x = torch.nn.functional.gelu(x) + torch.sin(x)
    return torch.nn.functional.relu(x) * 2


f(torch.randn(4, 32))
