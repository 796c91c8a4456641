"""What graphs may call beside torch: a custom op, a plain function, a function that a class holds."""

import torch


@torch.library.custom_op("oddops::twice", mutates_args=())
def twice(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * 2 * factor


@twice.register_fake
def _(x, factor):
    return torch.empty_like(x)


@torch.compiler.allow_in_graph
def smooth(x, window):
    return torch.nn.functional.avg_pool1d(x[None], window, 1)[0]


class Outer:
    @staticmethod
    def halve(x):
        return x / 2


torch.compiler.allow_in_graph(Outer.halve)
