"""Failures of native code: what the process wrote, and where in native code it died, belong to their identity."""

from dataclasses import replace

import pytest

from minifier.data.failure import Failure, Fingerprint, Kind, Stage, same
from minifier.data.failure.fingerprint import diagnostic, native_frames, native_identity, with_native
from minifier.data.failure.likeness import is_alike

STACK = """SIGSEGV(11), PID: 7, Thread 7:
 frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x8f (0x7f0 in /x/libc10.so)
frame #1: <unknown function> + 0x3c050 (0x7f0 in /lib/x86_64-linux-gnu/libc.so.6)
frame #2: gsignal + 0x12 (0x7f0 in /lib/x86_64-linux-gnu/libc.so.6)
frame #3: acme::(anonymous namespace)::tile(acme::Op&) + 0x1f (0x7f0 in /home/me/libacme.so)
frame #4: <unknown function> + 0x8608 (0x7f0 in /home/me/libacme_rt.so.2)
<omitting python frames>
frame #9: main + 0x1 (0x7f0 in /usr/bin/python)

SIGSEGV(11), PID: 7, Thread 8:
 frame #0: other::thread() + 0x8f (0x7f0 in /x/libother.so)
"""


@pytest.mark.parametrize(
    "line",
    [
        "./model.mlir:404:12: error: failed to legalize operation 'torch.aten.topk'",
        'loc("-":5:10): error: failed to legalize',
        "<unknown>:0: error: 'linalg.generic' op expected",
        "iree-compile: /a/UseDefLists.h:198: void f(): Assertion `use_empty()' failed.",
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no tile",
        "terminate called without an active exception",
        "*** stack smashing detected ***: terminated",
        "LLVM ERROR: Cannot select: t1",
        "F0722 10:11:12.131415 77 tile.cc:31] Check failed: a == b",
        "thread 'main' panicked at src/lib.rs:3:5",
        "==77==ERROR: AddressSanitizer: heap-buffer-overflow",
    ],
)
def test_the_first_diagnostic_counts(line):
    output = f"step 1\nwarning: slow\n{line}\nother.mlir:1:1: error: another\n"
    assert diagnostic(output) == line
    assert native_identity(output) and native_identity(output) != native_identity("a.mlir:1:1: error: another\n")


HEAP = [
    "malloc(): unaligned tcache chunk detected",
    "corrupted size vs. prev_size while consolidating",
    "double free or corruption (!prev)",
    "free(): invalid pointer",
    "python: malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av) && old_size == 0)' failed.",
    "Fatal glibc error: malloc assertion failure in sysmalloc: (old_top == initial_top (av) && old_size == 0)",
    "Fatal glibc error: malloc.c:2599 (sysmalloc): assertion failed: (old_top == initial_top (av))",
]


@pytest.mark.parametrize("line", HEAP)
def test_a_damaged_heap_is_one_failure_whatever_the_allocator_says_of_it(line):
    one, other = death(f"loss: 0.3\n{line}\n{ABORTED}", "SIGABRT"), death(f"{HEAP[0]}\n", "SIGABRT")
    assert one.written == line and same(one.fingerprint, other.fingerprint) and same(other.fingerprint, one.fingerprint)


def test_a_damaged_heap_may_end_the_process_anywhere_in_the_stage():
    heap, elsewhere = death(f"{HEAP[1]}\n", "SIGABRT"), death(STACK)
    assert same(heap.fingerprint, elsewhere.fingerprint) and is_alike(heap, elsewhere)
    assert same(death("").fingerprint, heap.fingerprint), "the script's own output is not read"
    assert not same(elsewhere.fingerprint, heap.fingerprint), "which dies at one place"
    assert not same(heap.fingerprint, death("LLVM ERROR: no\n", "SIGABRT").fingerprint)
    assert not same(heap.fingerprint, death("", "SIGFPE").fingerprint)
    assert not same(heap.fingerprint, replace(elsewhere.fingerprint, stage=Stage.COMPILE))


@pytest.mark.parametrize("output", ["", "loss: 0.3\n", "an error: it is off\n", "RuntimeError: Check failed\n"])
def test_other_output_is_no_diagnostic(output):
    assert diagnostic(output) == native_identity(output) == ""


ABORTED = STACK.replace("SIGSEGV(11)", "SIGABRT(6)")


@pytest.mark.parametrize("said", ["acme: check failed: rank == 4", "GGML_ASSERT(a) failed", "[fatal] no tile for it"])
def test_the_last_reason_ahead_of_an_abort_counts(said):
    """In the words of whoever wrote the backend; without an abort such a line is only a log."""
    log = "step 1\nunsupported: half\n"
    assert diagnostic(f"{log}{said}\ndone\n{ABORTED}") == said and diagnostic(f"{log}{said}\n{STACK}") == ""
    other = death(f"{log}check failed: other\n{ABORTED}").fingerprint
    assert not same(death(f"{log}{said}\n{ABORTED}").fingerprint, other)
    assert diagnostic(f"step 1\nFatal Python error: Aborted\n{ABORTED}") == ""


def test_a_diagnostics_place_and_numbers_do_not_count():
    one, other = ("a.mlir:3:7: error: no tile for 4 lanes\n", "/tmp/b.mlir:31:2: error: no tile for 16 lanes\n")
    assert native_identity(one) == native_identity(other) == "error: no tile for <number> lanes"


def test_native_frames_are_those_of_the_thread_that_died():
    assert native_frames(f"noise\n{STACK}") == ("acme::(anonymous namespace)::tile", "libacme_rt.so.2")
    assert native_identity(STACK) == "acme::(anonymous namespace)::tile" and native_frames("noise") == ()


def death(output, number="SIGSEGV"):
    return with_native(Failure(Fingerprint(Stage.RUN, Kind.SIGNAL, message=number), "signal", number), output)


def test_two_deaths_are_told_apart_where_both_are_known():
    here, there, unknown = death(STACK), death(STACK.replace("tile", "fuse")), death("")
    assert not same(here.fingerprint, there.fingerprint)
    assert same(here.fingerprint, unknown.fingerprint) and same(unknown.fingerprint, here.fingerprint)
    assert here.written == "acme::(anonymous namespace)::tile\nlibacme_rt.so.2"


@pytest.mark.parametrize("kind", [Kind.TIMEOUT, Kind.OUT_OF_MEMORY, Kind.WRONG_RESULT])
def test_what_else_was_written_is_no_part_of_other_failures(kind):
    failure = Failure(Fingerprint(Stage.RUN, kind, message="no end"), kind.value, "no end")
    assert with_native(failure, "a.mlir:1:1: error: no\n") == failure
