"""The client of warm_server.py: `minify` commands that are forks, with the interface of `subprocess.Popen`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from clock import Limit, wait_until

SERVER = Path(__file__).with_name("warm_server.py")
START_SECONDS = 120


class WarmProcess:
    """A forked command."""

    def __init__(self, connection: socket.socket, outputs: Sequence[IO[str]]) -> None:
        self._connection, self._outputs, self._received = connection, outputs, b""
        self.pid: int = self._answer(START_SECONDS)["pid"]
        self.returncode: int | None = None

    def _answer(self, timeout: float | None) -> dict[str, int]:
        """Read a line of the server's; `timeout` in seconds. Raises TimeoutError."""
        limit = Limit(timeout)
        while b"\n" not in self._received:
            if not select.select([self._connection], [], [], limit.rest)[0]:
                raise TimeoutError
            received = self._connection.recv(1024)
            assert received, "the warm server has died"
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, int] = json.loads(line)
        return answer

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the command runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; `timeout` in seconds. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            try:
                self.returncode = self._answer(timeout)["status"]
            except TimeoutError:
                raise subprocess.TimeoutExpired("minify", timeout or 0) from None
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return what was printed to standard output and to standard error."""
        self.wait(timeout)
        texts = []
        for output in self._outputs:
            output.seek(0)
            texts.append(output.read())
            output.close()
        return texts[0], texts[1]

    def printed_errors(self) -> str:
        """Return what was printed to standard error so far; the command goes on writing where it was."""
        file = self._outputs[1].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmCommand:
    """A server in a process of its own; it ends when this process does."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="warm-")
        self.address = os.path.join(self.folder.name, "socket")
        self.log = Path(self.folder.name, "log")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TORCH", "PYTEST"))}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SERVER), self.address],
                env=kept,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(
        self, arguments: Sequence[str | Path], folder: Path, environment: dict[str, str], program: str = "minify"
    ) -> WarmProcess:
        """Fork `minify ARGUMENTS`, or `python ARGUMENTS` with a script or `-c`, in a folder."""
        self._wait_for_server()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        outputs = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 - closed once they are read
        request = {
            "program": program,
            "arguments": list(map(str, arguments)),
            "folder": str(folder),
            "environment": environment,
        }
        with open(os.devnull) as nothing:
            files = [nothing.fileno(), *(output.fileno() for output in outputs)]
            socket.send_fds(connection, [json.dumps(request).encode()], files)
            return WarmProcess(connection, outputs)

    def _wait_for_server(self) -> None:
        wait_until(lambda: os.path.exists(self.address), self.log.read_text, START_SECONDS, self.process)


def warm_python(
    *arguments: str | Path, folder: Path, environment: dict[str, str], timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS...` in a folder would give; a fork that has torch already, but no backend."""
    process = warm_command().start(arguments, folder, environment, "python")
    try:
        out, err = process.communicate(timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(["python", *map(str, arguments)], process.wait(), out, err)


@functools.cache
def warm_command() -> WarmCommand:
    """Start the server, once in this process."""
    return WarmCommand()
