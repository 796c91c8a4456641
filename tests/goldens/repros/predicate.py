import math
import torch
import minifier_backends.faulty


def fn(x):
    return torch.tanh(x)


LIMIT = 1e-2


def differs(compiled, eager):
    return any(not math.isclose(c.sum(), e.sum(), rel_tol=LIMIT) for c, e in zip(compiled, eager))


torch.manual_seed(0)
x = torch.randn(2, 3)
expected = fn(x)
actual = torch.compile(fn, backend="faulty_wrong", options={"factor": 1.1})(x)
assert not differs([actual], [expected]), "the compiled result differs from the eager one"

# wrong-result: output 0 is off by 0.02
# torch TORCH, Python PYTHON, Linux MACHINE
