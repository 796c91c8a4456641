"""Between torch's graphs and tensors and the Case's plain data."""
