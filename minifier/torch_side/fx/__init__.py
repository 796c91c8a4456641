"""Conversion between torch's graphs and tensors and a Case's plain data."""
