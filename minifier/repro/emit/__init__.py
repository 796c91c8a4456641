"""Writes a Case as a script that a maintainer would have written by hand."""
