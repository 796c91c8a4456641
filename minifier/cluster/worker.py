"""`python -m minifier.cluster.worker FOLDER`: holds a Case, and probes candidates of it in children of its own. All
that it has is in FOLDER, which goes away when nobody asks any more."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from minifier.case.edit import edited
from minifier.case.store import load
from minifier.cluster.messages import ConnectionEnded, Message, Talk
from minifier.errors import MinifyError
from minifier.failure import Stage
from minifier.probe.life import Limits
from minifier.probe.prepared_case import StartsThreads, prepare_case
from minifier.probe.prober import LocalProber
from minifier.process.steps import adopt_orphans
from minifier.torch_private import inductor_cache, inductor_folder


class CaseWorker:
    """One Case, and what is asked about it."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.base = load(folder)
        try:
            bench = prepare_case(self.base)
        except StartsThreads:
            bench = prepare_case(self.base, late=True)
        self.prober = LocalProber(bench, scratch)

    def answer(self, asked: Message) -> Message:
        """The answer to `recorded` (a folder with values of an eager run) or `probe` (an edit)."""
        if "recorded" in asked:
            self.prober.bench.record(Path(asked["recorded"]))
            return {}
        case = edited(self.base, asked["probe"])
        (ended,) = self.prober.probe([case], Stage(asked["until"]), Limits(asked["seconds"], asked["memory"]))
        return {"ended": dataclasses.asdict(ended)}


def serve(talk: Talk, scratch: Path) -> None:
    """Answers until nobody asks any more. What goes wrong here is an answer too."""
    inductor_folder(), inductor_cache()  # as they are found now
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(scratch)
    session: CaseWorker | None = None
    while True:
        try:
            message = talk.hear()
        except ConnectionEnded:
            return
        try:
            if "load" in message:
                session = CaseWorker(Path(message["load"]), Path(tempfile.mkdtemp()))
                answer: Message = {}
            elif session is None:
                raise RuntimeError("there is no Case yet")
            else:
                answer = session.answer(message)
        except MinifyError as error:
            answer = {"error": str(error)}
        except Exception:  # noqa: BLE001 - told to whom it concerns
            answer = {"error": traceback.format_exc()}
        talk.say(answer)


def main() -> None:
    """Standard input has the questions, standard output the answers; what a backend prints goes nowhere."""
    talk = Talk(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    adopt_orphans()
    folder = Path(sys.argv[1])
    try:
        with contextlib.suppress(ConnectionEnded):
            serve(talk, folder / "scratch")
    finally:  # who owns this process has been killed: nobody else removes the Case from this machine
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
