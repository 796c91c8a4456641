"""Runs a graph with the weights of its products rounded to few bits."""
