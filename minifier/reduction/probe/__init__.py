"""Builds and runs candidates in child processes, and judges them."""
