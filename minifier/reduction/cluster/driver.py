"""`python -m minifier.reduction.cluster.driver ADDRESS SLOTS FOLDER`: gives candidates to actors on Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from minifier.data.case.switches import variables
from minifier.process.channel import Channel, ChannelEnded, Message
from minifier.process.child import kill_tree

Files = dict[str, bytes]  # of a folder: name and content


class Actor:
    """A slot of the cluster: owns the process that holds the Case. This class does not import Ray."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._environment = {**os.environ, **variables}
        if "OMP_NUM_THREADS" not in variables:  # Ray sets it for its workers
            self._environment.pop("OMP_NUM_THREADS", None)
        self._process = contextlib.ExitStack()  # ends the process and removes its files
        self._folder = Path()
        self._channel: Channel | None = None

    def ready(self, case: Files, imports_in_child: bool, recorded: Files | None) -> Message:
        """Start the process that holds the Case, unless it runs; hand it values of an eager run, if there are any.

        With `imports_in_child`, each probe imports the backend. Return {} or {"error": text}.
        """
        for _ in range(2):
            if self._channel is None:
                self._start(case, imports_in_child)
            folder = None if recorded is None else str(_written(recorded, self._folder / "recorded"))
            answer = self._ask({"recorded": folder})
            if answer is not None:
                return answer
        return {"error": "the process that makes the probes died twice while it loaded the Case"}

    def probe(self, question: Message) -> Message | None:
        """Probe a candidate. Return None if this restarted actor is not ready, or if the process dies or hangs."""
        return self._ask(question, question["seconds"] + _DELIVERY_SECONDS)

    def close(self) -> None:
        """End the process, and remove the Case from this machine."""
        self._channel = None
        self._process.close()

    def _start(self, case: Files, imports_in_child: bool) -> None:
        folder = tempfile.TemporaryDirectory(prefix="minify-slot-", ignore_cleanup_errors=True)
        self._folder = Path(self._process.enter_context(folder))
        _written(case, self._folder / "case")
        process = subprocess.Popen(
            [sys.executable, "-m", "minifier.reduction.cluster.worker", self._folder, str(int(imports_in_child))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        self._process.enter_context(process)
        self._process.callback(kill_tree, process.pid)
        assert process.stdin is not None and process.stdout is not None
        self._channel = Channel(process.stdout.fileno(), process.stdin.fileno())

    def _ask(self, question: Message, seconds: float | None = None) -> Message | None:
        """Return the process's answer. End a process that dies, or that does not answer within so many seconds."""
        try:
            if self._channel is not None:
                self._channel.send(**question)
                return self._channel.hear(seconds)
        except ChannelEnded:
            self.close()
        return None


def packed(folder: Path) -> Files:
    """Return the files of a folder, without its subfolders."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def _written(files: Files, folder: Path) -> Path:
    """Write files into a folder, instead of those that it has."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


LOCAL = "local"
_MAX_LOST_WORKERS = 3  # over one candidate, which is then given up
_NO_WORKER_SECONDS = 60.0  # without any worker, after which the cluster counts as gone
_FETCH_SECONDS = 10.0
_CLOSE_SECONDS = 5.0  # for the workers to remove the Case, before they are killed
_DELIVERY_SECONDS = 120.0  # for the answer of a probe, in addition to the probe's timeout


class Workers:
    """The actors. Ray restarts an actor that dies, where it finds room, and repeats its call of `ready`."""

    def __init__(self, ray: Any, count: int, channel: Channel) -> None:
        self._ray, self._count, self._channel = ray, count, channel
        self._content: tuple[Any, ...] = ()  # arguments of `ready`
        self._actors: dict[Any, Any] = {}  # by call of `ready`, without actors that probe
        self._error = ""

    def load(self, folder: Path, gpus: int, imports_in_child: bool) -> Message:
        """Send the Case to every actor. `gpus` is the number for each actor.

        With `imports_in_child`, each probe imports the backend.
        """
        self.close()
        count = self._count
        if gpus:
            count = min(count, int(self._ray.cluster_resources().get("GPU", 0)) // gpus)
        if not count:
            return {"error": f"the cluster has not the {gpus} GPUs that the graph is on"}
        kind = self._ray.remote(Actor).options(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)
        self._content = self._ray.put(packed(folder)), imports_in_child, None
        self._error = f"it gave no worker within {_NO_WORKER_SECONDS:.0f} s"
        for _ in range(count):
            self._make_ready(kind.remote(dict(variables(os.environ))))
        return {"slots": count}

    def record(self, folder: Path) -> Message:
        """Send the values of an eager run to every actor."""
        self._content = *self._content[:2], self._ray.put(packed(folder))
        actors, self._actors = self._actors, {}
        for actor in actors.values():
            self._make_ready(actor)
        return {}

    def probe(self, cases: list[str], rest: Message) -> Message:
        """Probe every candidate on some actor; a candidate whose actor is lost goes to another actor.
        Stops when the next message or the end of messages arrives: the reduction was interrupted."""
        waiting = deque(range(len(cases)))
        losses = [0] * len(cases)
        answers: list[Message | None] = [None] * len(cases)
        # By call of `probe`: (place, call of `ready`, actor, when an actor that does not answer counts as frozen).
        running: dict[Any, tuple[int, Any, Any, float]] = {}
        deadline = time.monotonic() + _NO_WORKER_SECONDS
        while None in answers:
            if running:
                deadline = time.monotonic() + _NO_WORKER_SECONDS
            elif not self._actors or time.monotonic() > deadline:
                return {"error": self._error}
            if self._channel.is_due:
                for _, _, actor, _ in running.values():
                    self._make_ready(actor)
                return {"error": "another question came"}
            for call, (place, ready, actor, limit) in list(running.items()):
                if time.monotonic() > limit:
                    self._ray.kill(actor, no_restart=False)
                    running[call] = place, ready, actor, limit + _DELIVERY_SECONDS
            done, _ = self._ray.wait([*running, *(self._actors if waiting else ())], timeout=1.0)
            for call in done:
                answer = self._answer(call)
                if call in running:
                    place, ready, actor, _ = running.pop(call)
                    if answer is None:
                        self._make_ready(actor)
                        losses[place] += 1
                        if losses[place] < _MAX_LOST_WORKERS:
                            waiting.append(place)
                            continue
                        answer = {"lost": f"{_MAX_LOST_WORKERS} workers were lost over it"}
                    else:
                        self._actors[ready] = actor
                    answers[place] = answer
                elif answer == {}:
                    place, actor = waiting.popleft(), self._actors.pop(call)
                    # Ray would repeat it in the same actor, for which there may be no room any more.
                    once = actor.probe.options(max_task_retries=0)
                    limit = time.monotonic() + rest["seconds"] + 2 * _DELIVERY_SECONDS
                    running[once.remote({"probe": cases[place], **rest})] = place, call, actor, limit
                else:
                    self._error = "a worker was lost" if answer is None else answer["error"]
                    self._actors.pop(call).close.remote()  # Ray ends an actor without references after its last call
        return {"answers": answers}

    def close(self) -> None:
        """Let every actor remove the Case from its machine, and end."""
        actors, self._actors = self._actors, {}
        if actors:
            closed = [actor.close.remote() for actor in actors.values()]
            self._ray.wait(closed, num_returns=len(closed), timeout=_CLOSE_SECONDS)
        for actor in actors.values():
            self._ray.kill(actor)

    def _make_ready(self, actor: Any) -> None:
        self._actors[actor.ready.remote(*self._content)] = actor

    def _answer(self, call: Any) -> Message | None:
        """Return the answer of an actor; None if the actor is lost."""
        try:
            answer: Message | None = self._ray.get(call, timeout=_FETCH_SECONDS)
        except self._ray.exceptions.RayTaskError as error:
            return {"error": str(error)}
        except self._ray.exceptions.RayError:
            return None
        return answer


def _connect(address: str, slots: int, folder: str) -> tuple[Any, int]:
    """Connect to Ray; return the module `ray` and the number of workers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        count = slots or len(os.sched_getaffinity(0))
        ray.init(address=LOCAL, num_cpus=count, include_dashboard=False, _temp_dir=folder, **quiet)
        return ray, count
    ray.init(address=address, **quiet)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    cpus = int(resources.get("CPU", 1))
    return ray, min(slots, cpus) if slots else cpus


def main() -> None:
    """Serve reductions until standard input ends."""
    address, slots = sys.argv[1], int(sys.argv[2])
    channel = Channel(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # Ray prints to standard output
    try:
        try:
            ray, count = _connect(address, slots, sys.argv[3])
        except Exception as error:  # noqa: BLE001 - the user's address, network or versions
            channel.send(error=f"{type(error).__name__}: {error}")
            return
        channel.send(slots=count)
        workers = Workers(ray, count, channel)
        try:
            while True:
                _serve(workers, channel)
        finally:
            workers.close()
            ray.shutdown()
    except ChannelEnded:
        return


def _serve(workers: Workers, channel: Channel) -> None:
    message = channel.hear()
    if "load" in message:
        answer = workers.load(Path(message["load"]), message["gpus"], message["imports_in_child"])
    elif "recorded" in message:
        answer = workers.record(Path(message["recorded"]))
    else:
        answer = workers.probe(message["cases"], message["rest"])
    channel.send(number=message["number"], **answer)


if __name__ == "__main__":
    main()
