"""A function with an op of many kinds, each of which a backend of tests/cases/refused.py can refuse."""

import torch
import torch.nn.functional as F


def fn(x, y, i, w, b):
    a = x.to(torch.float16).relu().float() * y
    a = F.layer_norm(a, (48,), w, b, 1e-3)
    a = a.view(6, 20, 4, 12).transpose(1, 2)
    a = torch.matmul(a, a.transpose(-1, -2)).relu()
    a = torch.clamp(a, -0.123, 7.25).pow(3).sin()
    c = F.gelu(F.embedding(i, y[0]), approximate="tanh").to(torch.bfloat16).float()
    d = F.relu(c.transpose(0, 1) * 2).sin()
    return a.to(torch.float64).sum() + a.sum(), F.softmax(d, dim=-1), a.transpose(2, 3).relu()
