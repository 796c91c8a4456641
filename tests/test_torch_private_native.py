"""Torch's private handler of fatal signals, used: a release that changes it fails here, by name."""

import ctypes
import faulthandler
import os
import signal
import threading

import pytest

from minifier.data.failure.fingerprint import DAMAGED_HEAP, native_frames, native_identity
from minifier.process.child import Child, supervise
from minifier.process.descriptors import StackFile, after_stack_file, stack_file
from minifier.process.interrupts import uninterrupted
from minifier.torch_side import torch_private as private
from minifier.torch_side.torch_private.modes import SignalStack


@pytest.mark.timeout(60)
def test_torch_prints_the_native_stack_of_a_fatal_signal(processes, tmp_path):
    output = tmp_path / "output"
    pid = os.fork()
    if pid == 0:
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 2)
        faulthandler.disable()
        stack_file(tmp_path / "stacks")
        with after_stack_file():
            private.print_native_stacks()
        ctypes.string_at(0)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    text = output.read_text()
    assert os.WTERMSIG(status) == signal.SIGSEGV and "Fatal Python error" in (tmp_path / "stacks").read_text()
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


@pytest.mark.timeout(60)
def test_a_process_that_aborts_in_the_allocator_dies_of_it(processes, tmp_path):
    """There torch's handler waits for the allocator's lock, which its own thread holds."""
    stacks, output = StackFile(tmp_path / "stacks", 1.0), tmp_path / "output"

    def run():
        faulthandler.disable()
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 2)
        stack_file(stacks.path)
        with after_stack_file():
            private.print_native_stacks()
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # so there is a lock
        allocator = ctypes.CDLL(None)
        allocator.malloc.restype = ctypes.c_void_p
        allocator.free.argtypes = [ctypes.c_void_p]
        chunks = [allocator.malloc(4000) for _ in range(3)]
        allocator.free(chunks[1])
        allocator.free(chunks[1])
        os._exit(0)

    with uninterrupted():
        child = Child.forked(run, 30, stacks=stacks)
    supervise([child])
    assert (child.signal, child.timed_out) == (signal.SIGABRT, False)
    assert native_identity(output.read_text()) == DAMAGED_HEAP
