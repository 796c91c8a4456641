"""Slice a module's source: the statements that a name needs, found without running the module."""
