r"""The backend refuses two ops together, in a program that prints, forks, starts threads, moves and closes its output.

reach: exit 0, 2 ops
shows: torch\.softmax\(.*torch\.tanh\(
hides: torch\.sin
run: -- --layers 12
says: \A(?!.*(thread|epoch) 1.*\1 1)(?=.*thread 1)(?=.*epoch 1)(?=.*child ended: 3)(?=.*handler.*handler)
layer: test
"""

import argparse
import atexit
import os
import pathlib
import sys
import threading

import oddlib
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, required=True)
layers = parser.parse_args().layers
here = pathlib.Path(__file__).parent
assert here.is_absolute() and (here / "data.txt").read_text() == "data\n" and sys.argv[0] == "main.py"
log = os.fdopen(os.dup(2), "w")
log.write("epoch 1\n")  # flushed as the interpreter ends
atexit.register(lambda: os.write(2, b"handler\n"))
threading.Thread(target=lambda: os.write(2, b"thread 1\n")).start()
if (child := os.fork()) == 0:
    os.write(2, b"child\n")
    os._exit(os.EX_OK + 3)
os.write(2, b"child ended: %d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.write(2, b"handler is set\n")
os.chdir("/")
sys.excepthook = lambda *_: os._exit(7)


@torch.compile(backend="oddlib_pair")
def f(x):
    x = torch.softmax(x, -1)
    for _ in range(layers):
        x = torch.sin(x) * 1.5
    return torch.cos(torch.tanh(x))


try:
    f(torch.randn(4, 8))
except Exception:
    log.close()
    sys.stdout.close()
    sys.stderr.close()
    raise SystemExit(7) from None
