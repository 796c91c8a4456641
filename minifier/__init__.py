"""Reduces a failing torch.compile backend call to a short, verified, standalone repro."""

__version__ = "0.1.0"
