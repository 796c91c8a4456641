r"""No backend call shows it: compiled, the program finds by itself that its result is wrong, and exits.

reach: exit 0, 7 statements
shows: is_compiling.*SystemExit
hides: print
layer: soak
"""

import torch


def scale(x):
    return x * (1.5 if torch.compiler.is_compiling() else 1.0)


x = torch.randn(4)
print("checking")
y = torch.compile(scale, backend="eager")(x)
if not torch.equal(y, x):
    raise SystemExit("WRONG")
