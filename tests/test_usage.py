"""Reading what the kernel tells of processes that end meanwhile."""

import os
import subprocess
import sys

import pytest

from minifier.process.descendants import read_threads, tree

pytestmark = [pytest.mark.timeout(150), pytest.mark.usefixtures("processes")]

MOST_ROUNDS = 10  # a child lives for a fraction of a millisecond, and a busy machine may miss each of a round
FORKS = """
import os
for _ in range(3000):
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_process_that_ends_while_it_is_read_is_left_out():
    largest = 0
    for _ in range(MOST_ROUNDS):
        with subprocess.Popen([sys.executable, "-S", "-c", FORKS]) as process:  # small, so that it forks fast
            while process.poll() is None:
                largest = max(largest, len(tree(process.pid)))
        assert process.returncode == 0
        if largest > 1:
            break
    assert largest > 1, "no child was ever seen"


def test_each_thread_is_read():
    assert str(os.getpid()) in read_threads(os.getpid(), "schedstat")
    assert read_threads(2**22 + 1, "schedstat") == {}
