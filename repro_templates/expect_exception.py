import torch


def fn(x):
    return torch.tanh(x)


def error_of(f):
    try:
        f(x)
    except Exception as error:
        return error


x = torch.randn(2, 3)
expected = error_of(fn)
actual = error_of(torch.compile(fn, backend="eager"))
print("eager:   ", repr(expected))
print("compiled:", repr(actual))
assert expected is None or actual is not None, "eager raises, the compiled function does not"
