"""Nothing fails, and the result is a copy: in eager it is a view of the input, and writing to it writes there."""

import minifier_backends.faulty
import torch


def heads(x):
    return x.view(2, 3, 4, 4), torch.tanh(x)


def shares(function, x):
    return function(x)[0].data_ptr() == x.data_ptr()


x = torch.randn(2, 3, 16)
compiled = torch.compile(heads, backend="faulty_alias")
print("shares memory in eager:", shares(heads, x), "compiled:", shares(compiled, x))
