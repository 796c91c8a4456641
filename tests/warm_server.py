"""Serve `minify` commands from one warm process: each command is a fork that has torch imported already.

A real `python -m minifier` spends nearly all of a short run on importing torch, here and in each interpreter of the
verification. The server imports everything once, stays at one thread and runs no op, as the tool's main process does,
and forks for each request. The verification's interpreters are forks of the command, which runs no code of the user's.

Run as `python warm_server.py SOCKET`; ends when its parent does. A request is one JSON line with `program` (minify
or python), `arguments`, `folder`, `environment`, and the open files for stdin, stdout and stderr; the answers are lines
with `pid`, then `status`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import selectors
import signal
import socket
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forked_script import become_program, forked_interpreters, run_main

from minifier.flow.cli import main as command

MAX_REQUEST_BYTES = 1 << 18


def warm_up() -> None:
    """Import what a command, the captured script and the probes import, and collect the report's environment once."""
    from minifier.flow.cli import running  # noqa: F401
    from minifier.flow.prepare import import_torch
    from minifier.process.forked_step import run_step
    from minifier.repro.report import environment

    collector = environment.EnvironmentCollector()
    environment.EnvironmentCollector = lambda: types.SimpleNamespace(  # type: ignore[misc, assignment]
        text=collector.text, close=lambda: None
    )
    import_torch()
    for name in compiled_modules(run_step):
        __import__(name)
    collector.text()
    seed_scripts()


def seed_scripts() -> None:
    """Give every script without a seed of its own the same numbers, where torch draws the seed at each start.

    A value-dependent failure that one input in eight does not show would fail one test run in eight.
    """
    import torch

    torch.default_generator.manual_seed(0)


def compiled_modules(run_step: Callable[..., object]) -> list[str]:
    """Find torch's modules that a small compilation imports, in a child."""
    read, write = os.pipe()

    def work() -> int:
        import torch

        x = torch.ones(2, requires_grad=True)
        torch.compile(lambda x: torch.sin(x) + 1, backend="aot_eager")(x).sum().backward()
        with os.fdopen(write, "w") as pipe:
            json.dump([name for name in sys.modules if name.split(".")[0] in ("torch", "sympy")], pipe)
        return 0

    run_step(work, meanwhile=lambda: os.close(write))
    with os.fdopen(read) as pipe:
        return [name for name in json.load(pipe) if name not in sys.modules]


def serve(listener: socket.socket) -> None:
    """Answer requests until the parent has gone."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    commands: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
    parent = os.getppid()
    while os.getppid() == parent:
        for key, _ in selector.select(timeout=1):
            if key.fileobj is listener:
                pid, connection = start(listener)
                process = os.pidfd_open(pid)
                commands[process] = pid, connection
                selector.register(process, selectors.EVENT_READ)
            else:
                pid, connection = commands.pop(key.fd)
                selector.unregister(key.fd)
                os.close(key.fd)
                answer(connection, status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                connection.close()


def start(listener: socket.socket) -> tuple[int, socket.socket]:
    """Fork the command of one request."""
    connection, _ = listener.accept()
    line, files, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
    request = json.loads(line)
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            listener.close()
            connection.close()
            status = become(request, files)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(status)
    for file in files:
        os.close(file)
    answer(connection, pid=pid)
    return pid, connection


def become(request: dict[str, Any], files: Sequence[int]) -> int:
    """Do as `python -m minifier ARGUMENTS`, `python SCRIPT ARGUMENTS` or `python -c SOURCE ARGUMENTS` in a folder, with
    these open files; return the exit status."""
    os.setsid()
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, arguments = request["folder"], request["arguments"]
    become_program(folder, request["environment"], files)
    os.closerange(3, 1024)  # nothing else that is open is the program's
    if request["program"] == "minify":
        sys.path.insert(0, folder)
        sys.argv = ["minifier", *arguments]
        command(forked_interpreters())  # ends the process
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        return run_main(arguments[1], "<string>")
    path = os.path.abspath(arguments[0])
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(path))
    return run_main(Path(path).read_text(encoding="utf-8"), path)


def answer(connection: socket.socket, **words: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test that asked was ended by its timeout
        connection.sendall(json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    place = socket.socket(socket.AF_UNIX)
    place.bind(sys.argv[1] + ".new")
    place.listen(8)
    warm_up()
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    serve(place)
