r"""A wrong report: what a context manager of a local class counts on entering and leaving is dropped.

source: https://github.com/pytorch/pytorch/issues/197896
reach: exit 0, 16 statements
cause: tracing
"""

import torch
import torch.nn.functional as F


def make_step(weights, totals):
    class Section:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            totals[self.name] = totals.get(self.name, 0) + 1

        def __exit__(self, *exception):
            totals["left"] = totals.get("left", 0) + 1

    @torch.compile(backend="eager")
    def step(batch):
        with Section("encode"):
            hidden = F.gelu(batch @ weights["encode"])
        with Section("decode"):
            logits = hidden @ weights["decode"]
        return logits

    return step


def main():
    torch.manual_seed(2)
    weights = {"encode": torch.randn(6, 20) / 3, "decode": torch.randn(20, 4) / 4}
    totals = {}
    step = make_step(weights, totals)
    labels = []
    for _ in range(5):
        labels += step(torch.randn(3, 6)).argmax(dim=1).tolist()
    print("labels", labels)
    print("sections", totals)


if __name__ == "__main__":
    main()
