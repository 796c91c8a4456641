"""The memory in which a process notes what it is doing, read by another."""

import os
import signal
import threading

import pytest
from clock import Clock

from minifier.capturing.running_calls import RunningCalls
from minifier.data.failure import Stage

pytestmark = pytest.mark.timeout(60)


def places(status):
    return [(call.stage, call.number, call.call) for call in status.running()]


@pytest.mark.usefixtures("processes")
def test_what_a_child_was_doing_when_it_died_is_there():
    status = RunningCalls(now=Clock())
    pid = os.fork()
    if pid == 0:
        status.enter(Stage.COMPILE, 3, 0)
        status.enter(Stage.RUN, 1, 2**40)
        os._exit(1)
    os.waitpid(pid, 0)
    assert places(status) == [(Stage.RUN, 1, 2**40)] and not status.has_ended
    (call,) = status.running()
    assert call.thread == threading.get_ident() and call.begun == Clock().seconds


def test_the_outer_call_is_running_again_when_the_inner_one_came_back():
    status = RunningCalls()
    outer = status.enter(Stage.COMPILE, 1, 0)
    inner = status.enter(Stage.BACKWARD_RUN, 2, 7)
    assert places(status) == [(Stage.BACKWARD_RUN, 2, 7)]
    status.leave(inner)
    assert places(status) == [(Stage.COMPILE, 1, 0)]
    status.leave(outer)
    assert places(status) == [] and not status.has_ended
    status.ended()
    assert status.has_ended


def test_each_thread_has_a_place_and_gives_it_back():
    status, ready, go = RunningCalls(), threading.Barrier(9), threading.Event()

    def work(number):
        token = status.enter(Stage.RUN, number, 1)
        ready.wait()
        go.wait()
        status.leave(token)

    for _ in range(30):  # 240 threads in all
        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        ready.wait()
        assert sorted(number for _, number, _ in places(status)) == list(range(1, 9))
        go.set()
        for thread in threads:
            thread.join()
        go.clear()
        assert places(status) == []


def test_more_threads_than_places_do_no_harm():
    status, begun, go = RunningCalls(), threading.Barrier(151), threading.Event()
    tokens = []

    def work():
        token = status.enter(Stage.RUN, 1, 1)
        tokens.append(token)
        begun.wait()
        go.wait()
        status.leave(token)

    threads = [threading.Thread(target=work) for _ in range(150)]
    for thread in threads:
        thread.start()
    begun.wait()
    assert tokens.count(None) == 50 and len(status.running()) == 100
    go.set()
    for thread in threads:
        thread.join()


# What the waiting process reads of the script's calls while they are written.

READS = 20_000


@pytest.mark.usefixtures("processes")
def test_a_call_that_is_being_written_is_whole_or_not_there():
    status = RunningCalls()
    child = os.fork()
    if child == 0:
        while True:
            status.leave(status.enter(Stage.RUN, 7, 3))
    try:
        calls = [call for _ in range(READS) for call in status.running()]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert calls
    assert all((call.stage, call.number, call.call) == (Stage.RUN, 7, 3) and call.begun > 0 for call in calls)
