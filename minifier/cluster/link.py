"""The pipes to the driver of a cluster. Knows no torch, so that it can be started before that is imported."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO

from minifier.cluster.messages import ConnectionEnded as NobodyThere
from minifier.cluster.messages import Message, Talk
from minifier.errors import UsageError
from minifier.process.descriptors import keep_from_scripts, let_go, out_of_the_way
from minifier.process.steps import LOOK, spare

_KNOCKING = 10.0  # seconds
_PATIENCE = 10.0  # seconds that the driver has to end
_TAIL = 2_000  # bytes of what it has printed


class Lost(Exception):
    """The cluster is gone, or of no use for this Case."""


class Cluster:
    """The pipes to the driver, made before the first fork: whoever reduces asks through them. `address` is for people,
    `said` has what the driver prints."""

    def __init__(self, address: str, talk: Talk, said: IO[bytes]) -> None:
        self.address = address
        self._talk, self._said = talk, said
        self._numbers = itertools.count(1)
        self._greeting: Message | None = None

    def wait(self, tick: Callable[[], object] = lambda: None) -> int:
        """Waits until the driver is connected, before the first fork, as it tells that once; gives how many probes it
        makes at once. Calls `tick` several times a second. Raises UsageError if there is no such cluster."""
        if self._greeting is None:
            try:
                while not self._talk.is_due:
                    tick()
                    time.sleep(LOOK)
                self._greeting = self._talk.hear()
            except NobodyThere:
                self._said.seek(0)
                text = self._said.read()[-_TAIL:].decode(errors="replace")
                self._greeting = {"error": f"its driver ended:\n{text}"}
        if "error" in self._greeting:
            raise UsageError(f"--cluster {self.address}: {self._greeting['error']}\n{_HELP}")
        return int(self._greeting["slots"])

    def ask(self, **question: object) -> Message:
        """The driver's answer; those to another reduction, which was interrupted, are left aside. Raises Lost."""
        number = os.getpid() * 1_000_000 + next(self._numbers)
        try:
            self._talk.say({"number": number, **question})
            while (answer := self._talk.hear()).get("number") != number:
                pass
        except NobodyThere:
            raise Lost("its driver has died") from None
        if "error" in answer:
            raise Lost(str(answer["error"]))
        return answer


_HELP = "Give the address of a running Ray cluster, `auto` on one of its machines, or `local`."


def _knock(address: str) -> None:
    """Raises UsageError if nobody listens at host:port or ray://host:port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCKING).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--cluster {address}: {type(error).__name__}: {error}\n{_HELP}") from None


@contextlib.contextmanager
def connected(address: str, slots: int | None) -> Iterator[Cluster]:
    """A driver for this cluster, or for one of this machine's cores (`local`), which ends with the `with`. It connects
    while the caller goes on. Raises UsageError where Ray is not installed, or nobody is at the address."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--cluster takes Ray, which is not installed: `pip install torch-minify[ray]`.")
    _knock(address)
    folder = tempfile.mkdtemp(prefix="minify-ray-", dir="/tmp")  # a short name, as there are sockets in it
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "minifier.cluster.driver", address, str(slots or 0), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # a Ctrl-C is for this process
        )
        spare(process.pid)
        assert process.stdin is not None and process.stdout is not None
        ends = [keep_from_scripts(out_of_the_way(os.dup(p.fileno()))) for p in (process.stdout, process.stdin)]
        process.stdin.close()
        process.stdout.close()
        talk = Talk(*ends)
        try:
            yield Cluster(address, talk, said)
        finally:
            for number in ends:
                let_go(number)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(folder, ignore_errors=True)
