"""All uses of torch's private interfaces, of the releases in docs/reference/versions.md.

tests/test_torch_private*.py and tests/test_interfaces.py fail if a release of torch changes what is needed of it.
"""
