"""Pipes to the driver of a cluster, a line of JSON for each message. Without torch, so that the driver needs none."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO

from minifier.errors import UsageError
from minifier.process.channel import Channel, ChannelEnded, Message
from minifier.process.child import LOOK, Child, supervise
from minifier.process.descriptors import keep_from_scripts, let_go, out_of_the_way

_CONNECT_SECONDS = 10.0
_DRIVER_END_SECONDS = 10.0
_MAX_OUTPUT_BYTES = 2_000  # of the driver's output, for an error message


class Lost(Exception):
    """The cluster is gone, or cannot be used for this Case."""


class Cluster:
    """The pipes to the driver, opened before the first fork and inherited by each reduction.
    `address` is for messages; `output` is the file of the driver's output."""

    def __init__(self, address: str, channel: Channel, output: IO[bytes]) -> None:
        self.address = address
        self._channel, self._output = channel, output
        self._numbers = itertools.count(1)
        self._greeting: Message | None = None

    def wait(self, tick: Callable[[], object] = lambda: None) -> int:
        """Wait until the driver is connected; return the number of concurrent probes.
        Calls `tick` several times a second. The first call must precede the first fork: the driver reports its
        connection only once. Raises UsageError if the driver cannot connect."""
        if self._greeting is None:
            try:
                while not self._channel.is_due:
                    tick()
                    time.sleep(LOOK)
                self._greeting = self._channel.hear()
            except ChannelEnded:
                self._output.seek(0)
                text = self._output.read()[-_MAX_OUTPUT_BYTES:].decode(errors="replace")
                self._greeting = {"error": f"its driver ended:\n{text}"}
        if "error" in self._greeting:
            raise UsageError(f"--cluster {self.address}: {self._greeting['error']}\n{_HELP}")
        return int(self._greeting["slots"])

    def ask(self, **question: object) -> Message:
        """Ask the driver; skip answers to an earlier, interrupted reduction. Raises Lost if the cluster is gone."""
        number = os.getpid() * 1_000_000 + next(self._numbers)
        try:
            self._channel.send(number=number, **question)
            while (answer := self._channel.hear()).get("number") != number:
                pass
        except ChannelEnded:
            raise Lost("its driver has died") from None
        if "error" in answer:
            raise Lost(str(answer["error"]))
        return answer


_HELP = "Give the address of a running Ray cluster, `auto` on one of its machines, or `local`."


def _check_address(address: str) -> None:
    """Raise UsageError if nobody listens at host:port or ray://host:port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"--cluster {address}: {type(error).__name__}: {error}\n{_HELP}") from None


@contextlib.contextmanager
def connected(address: str, slots: int | None) -> Iterator[Cluster]:
    """Start a driver for this cluster, or for this machine's cores (`local`); the driver ends with the block.
    It connects in the background. Raises UsageError if Ray is not installed, or nobody listens at the address."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--cluster takes Ray, which is not installed: `pip install torch-minify[ray]`.")
    _check_address(address)
    folder = tempfile.mkdtemp(prefix="minify-ray-", dir="/tmp")  # a short path: the paths of sockets in it are limited
    with tempfile.TemporaryFile() as output:
        answers, answering = os.pipe()
        asked, asking = os.pipe()
        driver = Child.launched(  # in its own session a Ctrl-C does not reach it
            [sys.executable, "-m", "minifier.reduction.cluster.driver", address, str(slots or 0), folder],
            stdin=asked,
            stdout=answering,
            stderr=output,
        )
        os.close(asked)
        os.close(answering)
        ends = [keep_from_scripts(out_of_the_way(end)) for end in (answers, asking)]
        try:
            yield Cluster(address, Channel(*ends), output)
        finally:
            for number in ends:
                let_go(number)
            driver.limit(_DRIVER_END_SECONDS)
            supervise([driver])
            shutil.rmtree(folder, ignore_errors=True)
