"""Inductor, for real: a switch of torch's own has it write a relu that does not compile, in one of twenty layers."""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Layer(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.norm, self.linear, self.activation = nn.LayerNorm(width), nn.Linear(width, width), activation

    def forward(self, x):
        return x + self.activation(self.linear(self.norm(x)))


torch.manual_seed(0)
model = nn.Sequential(*(Layer(32, nn.ReLU() if i == 10 else nn.GELU()) for i in range(20))).eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(4, 32)).shape)
