"""`python -m minifier.cluster.driver ADDRESS SLOTS FOLDER`: connects to Ray, and gives candidates to its workers.

Knows Ray, and no torch. Questions come on standard input, answers go to standard output.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from minifier.case.variables import variables
from minifier.cluster.actor import Actor, packed
from minifier.cluster.messages import ConnectionEnded, Message, Talk

LOCAL = "local"
_LOSSES = 3  # of workers over one candidate, after which it is given up
_PATIENCE = 60.0  # seconds without any worker, after which the cluster is taken for gone
_FETCHING = 10.0  # seconds
_SLACK = 120.0  # seconds beyond its own limit that a probe may take to come back


class Slots:
    """The workers, each with an actor that has the Case or is taking it up. A lost one is asked for again: Ray starts
    it where there is room."""

    def __init__(self, ray: Any, count: int, talk: Talk) -> None:
        self._ray, self._count, self._talk = ray, count, talk
        self._most = count
        self._case: Any = None
        self._recorded: Any = None
        self._options: dict[str, Any] = {"num_cpus": 1}
        self._idle: list[Any] = []
        self._coming: dict[Any, Any] = {}
        self._errors: list[str] = []

    def load(self, folder: Path, gpus: int) -> Message:
        """Gives the Case to every worker; waits for the first that has it. `gpus` is how many each of them needs."""
        for actor in [*self._idle, *self._coming.values()]:
            self._ray.kill(actor)
        self._idle, self._coming, self._errors, self._recorded = [], {}, [], None
        self._options = {"num_cpus": 1, "num_gpus": gpus}
        self._count = min(self._most, int(self._ray.cluster_resources().get("GPU", 0)) // gpus) if gpus else self._most
        if not self._count:
            return {"error": f"the cluster has not the {gpus} GPUs that the graph is on"}
        self._case = self._ray.put(packed(folder))
        for _ in range(self._count):
            self._ask_for_one()
        until = time.monotonic() + _PATIENCE
        while not self._idle and self._coming and time.monotonic() < until:
            self._welcome(1.0)
        if not self._idle:
            return {"error": self._errors[0] if self._errors else f"it gave no worker within {_PATIENCE:.0f} s"}
        return {"slots": self._count}

    def record(self, folder: Path) -> Message:
        """Gives the values of an eager run to every worker, those that are still taking up the Case included."""
        self._recorded = self._ray.put(packed(folder))
        actors = [*self._idle, *self._coming.values()]
        self._idle = []
        self._coming = {actor.record.remote(self._recorded): actor for actor in actors}
        return {}

    def probe(self, edits: list[Message], rest: Message) -> Message:
        """Every candidate at some worker; one that is lost on the way is given to another. Left alone where another
        question comes, or none will: who asked has been interrupted."""
        waiting = deque(range(len(edits)))
        losses = [0] * len(edits)
        answers: list[Message | None] = [None] * len(edits)
        asked: dict[Any, tuple[int, Any, float]] = {}
        lonely = time.monotonic()
        while None in answers:
            while waiting and self._idle:
                place, actor = waiting.popleft(), self._idle.pop()
                question = {"probe": edits[place], **rest}
                asked[actor.probe.remote(question)] = place, actor, time.monotonic() + rest["seconds"] + _SLACK
            if asked or self._idle:
                lonely = time.monotonic()
            elif time.monotonic() - lonely > _PATIENCE or not self._coming:
                return {"error": "the cluster has no worker left" + "".join(f": {e}" for e in self._errors[:1])}
            if self._talk.is_due:
                self._coming |= {reference: actor for reference, (_, actor, _) in asked.items()}
                return {"error": "another question came"}
            self._ray.wait([*asked, *self._coming], timeout=1.0)
            done, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=0) if asked else ([], [])
            late = [reference for reference, (_, _, until) in asked.items() if time.monotonic() > until]
            for reference in dict.fromkeys([*done, *late]):
                place, actor, _ = asked.pop(reference)
                answers[place] = self._answer(reference)
                if answers[place] is not None:
                    self._idle.append(actor)
                    continue
                losses[place] += 1
                self._ray.kill(actor)
                self._ask_for_one()
                if losses[place] < _LOSSES:
                    waiting.append(place)
                else:
                    answers[place] = {"lost": f"{_LOSSES} workers were lost over it"}
            self._welcome(0.0)
        return {"answers": answers}

    def close(self) -> None:
        """Has every worker remove the Case from its machine."""
        actors = [*self._idle, *self._coming.values()]
        if actors:
            self._ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=5)
        for actor in actors:
            self._ray.kill(actor)

    def _ask_for_one(self) -> None:
        actor = self._ray.remote(Actor).options(**self._options).remote(dict(variables(os.environ)))
        reference = actor.load.remote(self._case)
        if self._recorded is not None:
            reference = actor.record.remote(self._recorded)  # calls of one actor are made in their order
        self._coming[reference] = actor

    def _welcome(self, seconds: float) -> None:
        """Takes in those that have the Case by now, waiting so long for the first."""
        if not self._coming:
            return
        for reference in self._ray.wait(list(self._coming), num_returns=1, timeout=seconds)[0]:
            actor = self._coming.pop(reference)
            answer = self._answer(reference)
            if answer is None or "error" in answer:
                self._errors.append("it was lost" if answer is None else answer["error"])
                self._ray.kill(actor)
            else:
                self._idle.append(actor)

    def _answer(self, reference: Any) -> Message | None:
        """What a worker said; None if it is lost, or late."""
        try:
            answer: Message = self._ray.get(reference, timeout=_FETCHING)
        except self._ray.exceptions.RayTaskError as error:
            return {"error": str(error)}
        except self._ray.exceptions.RayError:
            return None
        return answer


def _connect(address: str, slots: int, folder: str) -> tuple[Any, int]:
    """(Ray, how many workers there are to be)."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        count = slots or len(os.sched_getaffinity(0))
        ray.init(address=LOCAL, num_cpus=count, include_dashboard=False, _temp_dir=folder, **quiet)
        return ray, count
    ray.init(address=address, **quiet)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    found = int(resources.get("CPU", 1))
    return ray, min(slots, found) if slots else found


def main() -> None:
    """Serves one reduction after the other until nobody asks any more."""
    address, slots = sys.argv[1], int(sys.argv[2])
    talk = Talk(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # Ray speaks to standard output
    try:
        try:
            ray, count = _connect(address, slots, sys.argv[3])
        except Exception as error:  # noqa: BLE001 - the user's address, network or versions
            talk.say({"error": f"{type(error).__name__}: {error}"})
            return
        talk.say({"slots": count})
        workers = Slots(ray, count, talk)
        try:
            while True:
                _serve(workers, talk)
        finally:
            workers.close()
            ray.shutdown()
    except ConnectionEnded:
        return


def _serve(workers: Slots, talk: Talk) -> None:
    message = talk.hear()
    if "load" in message:
        answer = workers.load(Path(message["load"]), message["gpus"])
    elif "recorded" in message:
        answer = workers.record(Path(message["recorded"]))
    else:
        answer = workers.probe(message["edits"], message["rest"])
    talk.say({"number": message["number"], **answer})


if __name__ == "__main__":
    main()
