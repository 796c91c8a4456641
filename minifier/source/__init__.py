"""Reduces a failing script as source, where there is no graph that shows its failure."""
