"""A tensor library whose backend for torch.compile is registered as the library is imported."""

from minigrad import torch_backend
