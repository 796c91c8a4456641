"""`python -m minifier.reduction.cluster.worker FOLDER IMPORTS_IN_CHILD`: holds the Case in FOLDER/case, and probes its
candidates in children. All its files are in FOLDER, which is removed at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from minifier.data.case.store import load, unpickled
from minifier.data.failure import Stage
from minifier.errors import MinifyError
from minifier.process.channel import Channel, ChannelEnded, Message
from minifier.process.descendants import adopt_orphans
from minifier.reduction.probe.children import Limits
from minifier.reduction.probe.prepared_case import prepare_case
from minifier.reduction.probe.verdicts import LocalProber
from minifier.torch_side.torch_private.inductor import inductor_cache, inductor_folder


class CaseWorker:
    """A Case, and the answers to questions about its candidates."""

    def __init__(self, folder: Path, scratch: Path, imports_in_child: bool) -> None:
        self.base = load(folder)
        self.prober = LocalProber(prepare_case(self.base, imports_in_child), scratch)

    def answer(self, question: Message) -> Message:
        """Answer `recorded` (a folder with values of an eager run, or None) or `probe` (a pickled Case)."""
        if "recorded" in question:
            if question["recorded"] is not None:
                self.prober.prepared.record(Path(question["recorded"]))
            return {}
        case = unpickled(question["probe"], self.base)
        limits = Limits(question["seconds"], question["memory"])
        (ended,) = self.prober.probe([case], Stage(question["until"]), limits)
        return {"ended": dataclasses.asdict(ended)}


def serve(channel: Channel, folder: Path, imports_in_child: bool) -> None:
    """Load the Case at the first question; answer questions until the connection ends. An error is an answer, too."""
    inductor_folder(), inductor_cache()  # cache the current values
    scratch = folder / "scratch"
    scratch.mkdir()
    tempfile.tempdir = str(scratch)
    worker: CaseWorker | None = None
    while True:
        message = channel.hear()
        try:
            worker = worker or CaseWorker(folder / "case", Path(tempfile.mkdtemp()), imports_in_child)
            answer = worker.answer(message)
        except MinifyError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001 - reported in the answer
            answer = {"error": traceback.format_exc()}
        channel.send(**answer)


def main() -> None:
    """Answer questions from standard input on standard output; discard the standard output of backends."""
    channel = Channel(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    adopt_orphans()
    folder = Path(sys.argv[1])
    try:
        with contextlib.suppress(ChannelEnded):
            serve(channel, folder, imports_in_child=bool(int(sys.argv[2])))
    finally:  # if the owner was killed, nobody else removes the Case from this machine
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
