"""The pipes to the driver of a cluster. Knows no torch, so that it can be started before that is imported."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from minifier.cluster.lines import Ended as NobodyThere
from minifier.cluster.lines import Message, receive, send
from minifier.descriptors import out_of_the_way
from minifier.errors import UsageError


class Lost(Exception):
    """The cluster is gone, or of no use for this Case."""


class Cluster:
    """The pipes to the driver, made before the first fork: whoever reduces asks through them. `address` is for people,
    `slots` how many probes are made at once."""

    def __init__(self, address: str, asked: IO[bytes], answers: IO[bytes]) -> None:
        self.address = address
        self._asked, self._answers = asked, answers
        self._numbers = itertools.count(1)
        self._greeting: Message | None = None

    def wait(self) -> int:
        """Waits until the driver is connected, before the first fork, as it tells that once; gives how many probes it
        makes at once. Raises UsageError if there is no such cluster."""
        if self._greeting is None:
            try:
                self._greeting = receive(self._answers)
            except NobodyThere:
                self._greeting = {"error": "its driver ended without a word"}
        if "error" in self._greeting:
            raise UsageError(
                f"--cluster {self.address}: {self._greeting['error']}\n"
                "Give the address of a running Ray cluster, `auto` on one of its machines, or `local`."
            )
        return int(self._greeting["slots"])

    def ask(self, **question: object) -> Message:
        """The driver's answer; those to another reduction, which was interrupted, are left aside. Raises Lost."""
        number = os.getpid() * 1_000_000 + next(self._numbers)
        try:
            send(self._asked, {"number": number, **question})
            while True:
                answer = receive(self._answers)
                if answer["number"] == number:
                    break
        except NobodyThere:
            raise Lost("its driver has died") from None
        if "error" in answer:
            raise Lost(str(answer["error"]))
        return answer


@contextlib.contextmanager
def connected(address: str, slots: int | None) -> Iterator[Cluster]:
    """A driver for this cluster, or for one of this machine's cores (`local`), which ends with the `with`. It connects
    while the caller goes on. Raises UsageError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--cluster takes Ray, which is not installed: `pip install torch-minify[ray]`.")
    folder = tempfile.mkdtemp(prefix="minify-ray-", dir="/tmp")  # a short name, as there are sockets in it
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "minifier.cluster.driver", address, str(slots or 0), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # a Ctrl-C is for this process
        )
        assert process.stdin is not None and process.stdout is not None
        ours = [out_of_the_way(os.dup(pipe.fileno())) for pipe in (process.stdin, process.stdout)]
        process.stdin.close()
        process.stdout.close()
        asked, answers = os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb")
        try:
            yield Cluster(address, asked, answers)
        finally:
            with contextlib.suppress(OSError):
                asked.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            answers.close()
            shutil.rmtree(folder, ignore_errors=True)
