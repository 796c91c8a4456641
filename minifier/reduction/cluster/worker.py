"""`python -m minifier.reduction.cluster.worker FOLDER`: holds a Case, and probes its candidates in children.
All its files are in FOLDER, which is removed at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from minifier.data.case.store import edited, load
from minifier.data.failure import Stage
from minifier.errors import MinifyError
from minifier.process.descendants import adopt_orphans
from minifier.reduction.cluster.link import ConnectionEnded, Message, Talk
from minifier.reduction.probe.children import Limits
from minifier.reduction.probe.prepared_case import prepare_case
from minifier.reduction.probe.verdicts import LocalProber
from minifier.torch_side.torch_private import inductor_cache, inductor_folder


class CaseWorker:
    """A Case, and the answers to questions about its candidates."""

    def __init__(self, folder: Path, scratch: Path, imports_in_child: bool) -> None:
        self.base = load(folder)
        self.prober = LocalProber(prepare_case(self.base, imports_in_child), scratch)

    def answer(self, question: Message) -> Message:
        """Answer `recorded` (a folder with values of an eager run) or `probe` (an edit)."""
        if "recorded" in question:
            self.prober.prepared.record(Path(question["recorded"]))
            return {}
        case = edited(self.base, question["probe"])
        limits = Limits(question["seconds"], question["memory"])
        (ended,) = self.prober.probe([case], Stage(question["until"]), limits)
        return {"ended": dataclasses.asdict(ended)}


def serve(talk: Talk, scratch: Path) -> None:
    """Answer questions until the connection ends; an error is an answer, too."""
    inductor_folder(), inductor_cache()  # cache the current values
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)
    worker: CaseWorker | None = None
    while True:
        try:
            message = talk.hear()
        except ConnectionEnded:
            return
        try:
            if "load" in message:
                worker = CaseWorker(Path(message["load"]), Path(tempfile.mkdtemp()), message["imports_in_child"])
                answer: Message = {}
            elif worker is None:
                raise RuntimeError("there is no Case yet")
            else:
                answer = worker.answer(message)
        except MinifyError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001 - reported in the answer
            answer = {"error": traceback.format_exc()}
        talk.say(answer)


def main() -> None:
    """Answer questions from standard input on standard output; discard the standard output of backends."""
    talk = Talk(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    adopt_orphans()
    folder = Path(sys.argv[1])
    try:
        with contextlib.suppress(ConnectionEnded):
            serve(talk, folder / "scratch")
    finally:  # if the owner was killed, nobody else removes the Case from this machine
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
