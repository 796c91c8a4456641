"""Joins search, passes and probes: from a Case to its minimum."""
