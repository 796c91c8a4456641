r"""The program fails only where the tool's hooks are not in the process.

reach: exit 0, 5 statements
shows: is_compiling.*AssertionError
hides: \.sin
layer: soak
"""

import torch


@torch.compile(backend="eager")
def scale(x):
    return x * (2 if torch.compiler.is_compiling() else 1)


x = torch.ones(3)
y = x.sin() + 1
scaled = scale(x)
if torch.library.Library.define.__code__.co_filename.endswith("library.py"):
    torch.testing.assert_close(scaled, x)
