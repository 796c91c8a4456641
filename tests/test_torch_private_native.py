"""Torch's private handler of fatal signals, used: a release that changes it fails here, by name."""

import ctypes
import faulthandler
import os
import signal

import pytest

from minifier.failure.native import native_frames
from minifier.torch_private import print_native_stacks


@pytest.mark.timeout(60)
def test_torch_prints_the_native_stack_of_a_fatal_signal(processes, tmp_path):
    output = tmp_path / "output"
    pid = os.fork()
    if pid == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 2)
        faulthandler.enable(2)
        print_native_stacks()
        ctypes.string_at(0)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    text = output.read_text()
    assert os.WTERMSIG(status) == signal.SIGSEGV and "Fatal Python error" in text
    assert native_frames(text)[0].startswith("_ctypes")
