r"""Stale values: at the second call the second argument is a view of the first, which the compiled function changes.

source: https://github.com/pytorch/pytorch/issues/139789
reach: exit 0, 10 statements
cause: aliasing/mutation
"""

import torch


@torch.compile(backend="aot_eager")
def decay_and_read(memory, read_from, rate):
    """Lets the memory fade in place, then reads."""
    memory.mul_(rate)
    return torch.tanh(read_from).sum(dim=-1)


class Reader:
    def __init__(self, slots, width):
        generator = torch.Generator().manual_seed(24)
        self.memory = torch.randn(slots, width, generator=generator)
        self.other = torch.randn(slots, width, generator=generator)

    def sources(self):
        """First somebody else's memory, then the own one under other names."""
        yield self.other
        yield self.memory.view(self.memory.shape)
        yield self.memory.detach()
        yield self.other


def main():
    reader = Reader(4, 6)
    for number, source in enumerate(reader.sources()):
        read = decay_and_read(reader.memory, source, 0.5)
        print("read", number, [round(value, 4) for value in read.tolist()])
    print("left", round(reader.memory.abs().sum().item(), 5))


main()
