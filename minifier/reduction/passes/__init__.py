"""Simplifications of a Case. A pass lists edits; it runs nothing and knows no search order."""
