"""Runs in a Ray worker: owns a process with the Case, restarts a dead process, and forwards messages."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from minifier.cluster.messages import ConnectionEnded, Message, Talk
from minifier.process.child import kill_tree


class Actor:
    """A slot of the cluster. This class does not import Ray."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._environment = {**os.environ, **variables}
        if "OMP_NUM_THREADS" not in variables:  # Ray sets it for its workers
            self._environment.pop("OMP_NUM_THREADS", None)
        self._folder = Path(tempfile.mkdtemp(prefix="minify-slot-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._talk: Talk | None = None
        self._recorded = self._imports_in_child = False

    def load(self, case: bytes, imports_in_child: bool) -> Message:
        """Load the Case, a zip of its folder; return {} or {"error": text}.

        With `imports_in_child`, each probe imports the backend.
        """
        self._end()
        for old in self._folder.iterdir():
            shutil.rmtree(old)
        _unpack(case, self._folder / "case")
        self._recorded, self._imports_in_child = False, imports_in_child
        return self._ask({})

    def record(self, values: bytes) -> Message:
        """Load values of an eager run of the whole graph, a zip of their folder."""
        _unpack(values, self._folder / "recorded")
        self._recorded = True
        return self._ask({"recorded": str(self._folder / "recorded")})

    def probe(self, question: Message) -> Message:
        """Probe a candidate."""
        return self._ask(question)

    def close(self) -> None:
        """End the process, and remove the Case from this machine."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, question: Message) -> Message:
        for last in (False, True):
            try:
                if self._process is None:
                    answer = self._start()
                    if "error" in answer:
                        return answer
                return self._exchange(question) if question else {}
            except ConnectionEnded:
                self._end()
                if last:
                    break
        return {"error": "the process that makes the probes died twice over this candidate"}

    def _start(self) -> Message:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "minifier.cluster.worker", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._talk = Talk(self._process.stdout.fileno(), self._process.stdin.fileno())
        answer = self._exchange({"load": str(self._folder / "case"), "imports_in_child": self._imports_in_child})
        if self._recorded and "error" not in answer:
            answer = self._exchange({"recorded": str(self._folder / "recorded")})
        return answer

    def _exchange(self, message: Message) -> Message:
        assert self._talk is not None
        self._talk.say(message)
        return self._talk.hear()

    def _end(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        kill_tree(process.pid)
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()


def packed(folder: Path) -> bytes:
    """Return the files of a folder, without its subfolders, as a zip."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as file:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                file.write(path, path.name)
    return content.getvalue()


def _unpack(content: bytes, folder: Path) -> None:
    """Unzip files into a new folder. Only their names are used, not their paths."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for name in file.namelist():
            (folder / Path(name).name).write_bytes(file.read(name))
