"""Torch's private handler of fatal signals, used: a release that changes it fails here, by name."""

import ctypes
import faulthandler
import os
import signal

import pytest

from minifier.data.failure.fingerprint import native_frames
from minifier.torch_side import torch_private as private
from minifier.torch_side.torch_private.modes import SignalStack


@pytest.mark.timeout(60)
def test_torch_prints_the_native_stack_of_a_fatal_signal(processes, tmp_path):
    output = tmp_path / "output"
    pid = os.fork()
    if pid == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 2)
        faulthandler.enable(2)
        private.print_native_stacks()
        ctypes.string_at(0)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    text = output.read_text()
    assert os.WTERMSIG(status) == signal.SIGSEGV and "Fatal Python error" in text
    assert native_frames(text)[0].startswith("_ctypes")


@pytest.mark.timeout(60)
def test_its_handler_has_a_stack_of_its_own(processes):
    """On faulthandler's small one some processes die by SIGABRT, or never."""
    pid = os.fork()
    if pid == 0:
        faulthandler.enable(2)
        private.print_native_stacks()
        private.print_native_stacks()
        now = SignalStack()
        ctypes.CDLL(None).sigaltstack(None, ctypes.byref(now))
        os._exit(now.ss_size >> 16)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 16, "1 MiB"
