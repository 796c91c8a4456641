"""Torch: its private interfaces, graphs and tensors, and the comparison of results."""
