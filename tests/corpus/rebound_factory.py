r"""Old code runs: a class method bound anew after the first call is not picked up.

source: https://github.com/pytorch/pytorch/issues/197860
reach: exit 0, 13 statements
cause: tracing
"""

import torch


class Schedule:
    """How much noise there is at each time; plug-ins may put in another rule."""

    steps = 10

    @classmethod
    def level(cls, time):
        return 1.0 - time / cls.steps


class Diffusion:
    def __init__(self, schedule):
        self.schedule = schedule
        generator = torch.Generator().manual_seed(64)
        self.weight = torch.randn(8, 8, generator=generator) / 8
        self.noisy = torch.compile(self.add_noise, backend="aot_eager")

    def add_noise(self, clean, noise, level_of):
        level = level_of * self.schedule.level(4)
        return (1 - level) * clean @ self.weight + level * noise


def main():
    torch.manual_seed(66)
    diffusion = Diffusion(Schedule())
    clean, noise = torch.randn(3, 8), torch.randn(3, 8)
    print("linear", round(diffusion.noisy(clean, noise, 1.0).std().item(), 5))
    Schedule.level = classmethod(lambda cls, time: (time / cls.steps) ** 2)
    print("squared", round(diffusion.noisy(clean, noise, 1.0).std().item(), 5))


if __name__ == "__main__":
    main()
