"""The faults that kill, stop or bloat the process, each in a real one."""

import signal

import pytest

SCRIPT = """
import re
import torch
import minifier_backends.faulty

def mib(field):
    # Not getrusage: its peak survives exec, and so is at first the parent's.
    return int(re.search(rf"{{field}}:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024

compiled = torch.compile(torch.tanh, backend={backend!r}, options={options!r})
before = mib("VmRSS")
print("begin", flush=True)
try:
    x = torch.ones(3, requires_grad=True)
    compiled(x).sum().backward()
except Exception as error:
    print("raised", type(getattr(error, "inner_exception", error)).__name__)
print("peak", mib("VmHWM") - before)
"""


def script(backend, **options):
    return SCRIPT.format(backend=backend, options=options)


@pytest.mark.parametrize(
    ("backend", "options", "code"),
    [
        ("faulty_segfault", {"stage": "compile"}, -signal.SIGSEGV),
        ("faulty_segfault", {"level": "backward", "op": "tanh_backward"}, -signal.SIGSEGV),
        ("faulty_abort", {"stage": "run"}, -signal.SIGABRT),
        ("faulty_exit", {"code": 42}, 42),
    ],
)
def test_the_process_dies(run_python, backend, options, code):
    done = run_python("-c", script(backend, **options))
    assert (done.returncode, done.stdout) == (code, "begin\n"), done.stderr


@pytest.mark.parametrize("stage", ["compile", "run"])
def test_a_hang_with_an_end_does_no_other_harm(run_python, stage):
    done = run_python("-c", script("faulty_hang", stage=stage, seconds=0.2))
    assert done.returncode == 0, done.stderr
    assert "raised" not in done.stdout


@pytest.mark.parametrize("stage", ["compile", "run"])
def test_memory_really_grows_up_to_the_limit(run_python, stage):
    done = run_python("-c", script("faulty_memory", stage=stage, limit_mib=400))
    assert "raised MemoryError" in done.stdout, done.stderr
    peak = float(done.stdout.split("peak")[1])
    # Dynamo itself takes some tens of MiB for a first compilation.
    assert 400 <= peak <= 700
