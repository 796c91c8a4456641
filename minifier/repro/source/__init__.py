"""Reduces the source of a failing script when no captured graph shows its failure."""
