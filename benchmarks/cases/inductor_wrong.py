"""Inductor, for real: a switch of torch's own has it compute a wrong relu; the script itself sees that."""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(32, 32), nn.ReLU() if i == 3 else nn.GELU()) for i in range(6)]
model = nn.Sequential(*layers).eval()
x = torch.randn(4, 32)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model)(x), model(x))
