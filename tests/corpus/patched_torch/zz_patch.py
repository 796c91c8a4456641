import torch

torch.patched_for_lower = True
