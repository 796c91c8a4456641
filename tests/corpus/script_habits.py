r"""A script with arguments, a thread and a file beside it catches the backend's error, and ends with status 7.

reach: exit 0, 1 op
shows: tanh\(.*oddlib_tanh
hides: argparse|linear|lstm
run: -- --depth 9 --name "two words"
layer: soak
"""

import argparse
import queue
import sys
import threading
from pathlib import Path

import oddlib
import torch
from torch import nn


class Probe(nn.Module):
    """A linear probe with more layers than it should have; the fifth is squashed."""

    def __init__(self, depth, width=18):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, features):
        for number, layer in enumerate(self.layers):
            features = torch.tanh(layer(features)) if number == 4 else torch.relu(layer(features)) + features
        return features.mean(dim=-1)


def produce(batches):
    batches.put(torch.randn(4, 18))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--name", required=True)
    arguments = parser.parse_args()
    if not Path(__file__).is_file() or Path(sys.argv[0]).name != "script_habits.py" or arguments.name != "two words":
        return 1
    batches = queue.Queue()
    loader = threading.Thread(target=produce, args=(batches,))
    loader.start()
    try:
        with torch.no_grad():
            torch.compile(Probe(arguments.depth).eval(), backend="oddlib_tanh")(batches.get())
    except Exception as error:
        print(f"{arguments.name}: the probe gave up, {type(error).__name__}", file=sys.stderr)
        return 7
    finally:
        loader.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
