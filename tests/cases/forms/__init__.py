"""Backends in ten forms that people have published; the structure is theirs, the code and the faults are not."""
