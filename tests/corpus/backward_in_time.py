r"""From the wrong place: a transposed table, stretched and turned round, is read from in front of its start.

source: https://github.com/pytorch/pytorch/issues/190765
reach: exit 0, 4 ops
cause: symbolic
"""

import torch
from torch import nn


class Replay(nn.Module):
    """Plays the frames of a few channels, one channel after the other, slowed down and backwards."""

    def __init__(self, slower):
        super().__init__()
        self.slower = slower
        self.volume = nn.Parameter(torch.tensor(0.5))

    def forward(self, frames):
        samples = frames.t().flatten()
        return self.volume * samples.repeat_interleave(self.slower).flip(0)


class Tape:
    """A long recording, of which square pieces are played."""

    def __init__(self, length):
        self.frames = torch.randn(length, 2)

    def piece(self, start, size):
        return self.frames[start : start + size]


@torch.no_grad()
def main():
    torch.manual_seed(28)
    tape = Tape(64)
    play = torch.compile(Replay(2).eval(), dynamic=True)
    for start in (32, 40):
        played = play(tape.piece(start, 2))
        print("from", start, [round(value, 4) for value in played.tolist()])


if __name__ == "__main__":
    main()
