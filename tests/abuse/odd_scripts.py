"""A table of small scripts, each of which fails in a backend and does something odd as well."""

from __future__ import annotations

from dataclasses import dataclass

FAILS = """
def f(x):
    return torch.tanh(x + 1) * 2


torch.compile(f, backend="oddlib_tanh")(torch.ones(4))
"""
SWALLOWED = """
try:
    torch.compile(lambda x: torch.tanh(x + 1) * 2, backend="oddlib_tanh")(torch.ones(4))
except Exception as error:
    print(type(error).__name__)
"""
ERROR = "BackendCompilerFailed"


@dataclass(frozen=True)
class OddScript:
    """A script that imports torch and oddlib, runs `before`, fails, and runs `after`.

    With `after`, the script swallows the error and prints `ERROR`. `prints` is its standard output, as under plain
    `python`. `code` is the documented exit code of `minify run`, `says` a part of its standard error. `given` are
    options of minify.
    """

    name: str
    before: str = ""
    after: str = ""
    prints: str = ""
    code: int = 0
    says: str = ""
    given: tuple[str, ...] = ()
    is_in_soak: bool = True

    @property
    def source(self) -> str:
        """The text of the script."""
        return f"import torch\nimport oddlib\n{self.before}{SWALLOWED if self.after else FAILS}{self.after}"

    @property
    def output(self) -> str:
        """Everything that the script prints to standard output."""
        return f"{self.prints}{ERROR}\n" if self.after and ERROR not in self.prints else self.prints


SCRIPTS = (
    OddScript(
        "removes its folder",
        before="import os, shutil\nshutil.rmtree(os.path.dirname(os.path.abspath(__file__)))\nprint('gone')\n",
        prints="gone\n",
    ),
    OddScript(
        "allows itself no processes", before="import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
    ),
    OddScript(
        "allows itself no further memory",
        before="import resource\ngranted = 2**28 + int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (granted, granted))\n",
    ),
    OddScript(
        "allows itself small files alone",
        before="import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))\n",
        code=5,
        says="File too large",
    ),
    OddScript(
        "ignores SIGCHLD", before="import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n", is_in_soak=False
    ),
    OddScript(
        "waits for its children in a handler of SIGCHLD",
        before="import os, signal\n\n\ndef reap(*_):\n    while True:\n        try:\n"
        "            if os.waitpid(-1, os.WNOHANG)[0] == 0:\n                return\n"
        "        except ChildProcessError:\n            return\n\n\nsignal.signal(signal.SIGCHLD, reap)\n",
    ),
    OddScript(
        "has an alarm that goes off all the time",
        before="import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n",
    ),
    OddScript(
        "has its own excepthook",
        before="import sys\nsys.excepthook = lambda kind, *_: print('hook:', kind.__name__)\n",
        prints=f"hook: {ERROR}\n",
    ),
    OddScript(
        "leaves a thread that never ends",
        before="import threading\nthreading.Thread(target=threading.Event().wait).start()\n",
        given=("--timeout", "4"),
        says="does not end",
    ),
    OddScript(
        "is interrupted by its own thread as it ends",
        before="import os, signal, threading\n\n\ndef late():\n    threading.main_thread().join()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n\n\nthreading.Thread(target=late).start()\n",
        is_in_soak=False,
    ),
    OddScript(
        "replaces open for writing",
        before="import builtins, io\nfrom pathlib import Path\noriginal = open\n\n\n"
        "def reading(file, mode='r', *rest, **more):\n    if mode not in ('r', 'rb'):\n"
        "        raise PermissionError('no files')\n    return original(file, mode, *rest, **more)\n\n\n"
        "builtins.open = io.open = reading\n",
    ),
    OddScript(
        "replaces the clocks", before="import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0\n"
    ),
    OddScript(
        "replaces torch.save",
        before="def refused(*_, **__):\n    raise RuntimeError('saved')\n\n\ntorch.save = torch.load = refused\n",
    ),
    OddScript("replaces os.environ", before="import os\nos.environ = {'PATH': os.defpath}\n"),
    OddScript(
        "traces itself",
        before="import sys\nlines = []\n\n\ndef tracer(frame, event, _):\n    lines.append(event)\n    return tracer\n"
        "\n\nsys.settrace(tracer)\n",
        after="sys.settrace(None)\nprint(len(lines) > 10)\n",
        prints=f"{ERROR}\nTrue\n",
    ),
    OddScript(
        "replaces print and sys.stdout", before="import builtins, sys\nprint = builtins.print = sys.stdout = None\n"
    ),
    OddScript("changes its umask", before="import os\nos.umask(0o777)\n"),
    OddScript(
        "leaves a stopped child",
        after="import os, signal\nif os.fork() == 0:\n    os.kill(os.getpid(), signal.SIGSTOP)\n    os._exit(0)\n",
    ),
)

SPAWNS = """
import multiprocessing

import torch
import oddlib


def double(n):
    return 2 * n


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [1, 2]))
    torch.compile(lambda x: torch.tanh(x + 1) * 2, backend="oddlib_tanh")(torch.ones(4))
"""
