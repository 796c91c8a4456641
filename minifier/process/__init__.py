"""Processes: forked steps and started interpreters, their limits, usage, open files, stacks and signals."""
