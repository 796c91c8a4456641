"""The backend `reference_aot` prints the forward and the backward ATen graph of a model in training."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
compiled = torch.compile(model, backend="reference_aot", options={"print_graphs": True})
compiled(torch.randn(2, 4)).sum().backward()
print("gradient:", model[0].weight.grad.shape)
