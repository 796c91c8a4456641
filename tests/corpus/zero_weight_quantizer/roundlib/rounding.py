"""Symmetric rounding: zero stays zero, the largest weight becomes the largest integer."""


class Rounding:
    def __init__(self, bits, for_each_row):
        self.largest, self.for_each_row = 2 ** (bits - 1) - 1, for_each_row

    def __call__(self, weight):
        over = range(1 if self.for_each_row else 0, weight.dim())
        step = weight.abs().amax(tuple(over), keepdim=True) / self.largest
        return (weight / step).round() * step
