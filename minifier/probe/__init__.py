"""Builds and runs candidates in child processes, and says how they did."""
