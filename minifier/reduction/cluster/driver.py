"""`python -m minifier.reduction.cluster.driver ADDRESS SLOTS FOLDER`: gives candidates to actors on Ray."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from pathlib import Path
from typing import Any

from minifier.data.case.switches import variables
from minifier.process.child import kill_tree
from minifier.reduction.cluster.link import ConnectionEnded, Message, Talk


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
            [sys.executable, "-m", "minifier.reduction.cluster.worker", str(self._folder)],
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


LOCAL = "local"
_MAX_LOST_WORKERS = 3  # over one candidate, which is then given up
_NO_WORKER_SECONDS = 60.0  # without any worker, after which the cluster counts as gone
_FETCH_SECONDS = 10.0
_DELIVERY_SECONDS = 120.0  # for the answer of a probe, in addition to the probe's timeout


class Workers:
    """The workers: actors that have the Case or are loading it. Ray is asked to replace a lost worker."""

    def __init__(self, ray: Any, count: int, talk: Talk) -> None:
        self._ray, self._count, self._talk = ray, count, talk
        self._max_count = count
        self._case: Any = None
        self._imports_in_child = False
        self._recorded: Any = None
        self._options: dict[str, Any] = {"num_cpus": 1}
        self._idle: list[Any] = []
        self._loading: dict[Any, Any] = {}
        self._errors: list[str] = []

    def load(self, folder: Path, gpus: int, imports_in_child: bool) -> Message:
        """Send the Case to every worker; wait until the first is ready. `gpus` is the number for each worker.

        With `imports_in_child`, each probe imports the backend.
        """
        for actor in [*self._idle, *self._loading.values()]:
            self._ray.kill(actor)
        self._idle, self._loading, self._errors, self._recorded = [], {}, [], None
        self._options = {"num_cpus": 1, "num_gpus": gpus}
        self._count = self._max_count
        if gpus:
            self._count = min(self._max_count, int(self._ray.cluster_resources().get("GPU", 0)) // gpus)
        if not self._count:
            return {"error": f"the cluster has not the {gpus} GPUs that the graph is on"}
        self._case, self._imports_in_child = self._ray.put(packed(folder)), imports_in_child
        for _ in range(self._count):
            self._add_worker()
        deadline = time.monotonic() + _NO_WORKER_SECONDS
        while not self._idle and self._loading and time.monotonic() < deadline:
            self._collect_loaded(1.0)
        if not self._idle:
            return {
                "error": self._errors[0] if self._errors else f"it gave no worker within {_NO_WORKER_SECONDS:.0f} s"
            }
        return {"slots": self._count}

    def record(self, folder: Path) -> Message:
        """Send the values of an eager run to every worker, also to workers that are still loading the Case."""
        self._recorded = self._ray.put(packed(folder))
        actors = [*self._idle, *self._loading.values()]
        self._idle = []
        self._loading = {actor.record.remote(self._recorded): actor for actor in actors}
        return {}

    def probe(self, edits: list[Message], rest: Message) -> Message:
        """Probe every candidate on some worker; a candidate whose worker is lost goes to another worker.
        Stops when the next message or the end of messages arrives: the reduction was interrupted."""
        waiting = deque(range(len(edits)))
        lost_workers = [0] * len(edits)
        answers: list[Message | None] = [None] * len(edits)
        running: dict[Any, tuple[int, Any, float]] = {}  # reference: (place, actor, deadline)
        last_worker_seen = time.monotonic()
        while None in answers:
            while waiting and self._idle:
                place, actor = waiting.popleft(), self._idle.pop()
                question = {"probe": edits[place], **rest}
                deadline = time.monotonic() + rest["seconds"] + _DELIVERY_SECONDS
                running[actor.probe.remote(question)] = place, actor, deadline
            if running or self._idle:
                last_worker_seen = time.monotonic()
            elif time.monotonic() - last_worker_seen > _NO_WORKER_SECONDS or not self._loading:
                return {"error": "the cluster has no worker left" + "".join(f": {e}" for e in self._errors[:1])}
            if self._talk.is_due:
                self._loading |= {reference: actor for reference, (_, actor, _) in running.items()}
                return {"error": "another question came"}
            self._ray.wait([*running, *self._loading], timeout=1.0)
            done, _ = self._ray.wait(list(running), num_returns=len(running), timeout=0) if running else ([], [])
            late = [reference for reference, (_, _, deadline) in running.items() if time.monotonic() > deadline]
            for reference in dict.fromkeys([*done, *late]):
                place, actor, _ = running.pop(reference)
                answers[place] = self._answer(reference)
                if answers[place] is not None:
                    self._idle.append(actor)
                    continue
                lost_workers[place] += 1
                self._ray.kill(actor)
                self._add_worker()
                if lost_workers[place] < _MAX_LOST_WORKERS:
                    waiting.append(place)
                else:
                    answers[place] = {"lost": f"{_MAX_LOST_WORKERS} workers were lost over it"}
            self._collect_loaded(0.0)
        return {"answers": answers}

    def close(self) -> None:
        """Let every worker remove the Case from its machine."""
        actors = [*self._idle, *self._loading.values()]
        if actors:
            self._ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=5)
        for actor in actors:
            self._ray.kill(actor)

    def _add_worker(self) -> None:
        actor = self._ray.remote(Actor).options(**self._options).remote(dict(variables(os.environ)))
        reference = actor.load.remote(self._case, self._imports_in_child)
        if self._recorded is not None:
            reference = actor.record.remote(self._recorded)  # Ray keeps the order of an actor's calls
        self._loading[reference] = actor

    def _collect_loaded(self, seconds: float) -> None:
        """Make workers idle that have loaded the Case; wait this long for the first."""
        if not self._loading:
            return
        for reference in self._ray.wait(list(self._loading), num_returns=1, timeout=seconds)[0]:
            actor = self._loading.pop(reference)
            answer = self._answer(reference)
            if answer is None or "error" in answer:
                self._errors.append("it was lost" if answer is None else answer["error"])
                self._ray.kill(actor)
            else:
                self._idle.append(actor)

    def _answer(self, reference: Any) -> Message | None:
        """Return the answer of a worker; None if the worker is lost, or late."""
        try:
            answer: Message = self._ray.get(reference, timeout=_FETCH_SECONDS)
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
    talk = Talk(os.dup(0), os.dup(1))
    os.dup2(2, 1)  # Ray prints to standard output
    try:
        try:
            ray, count = _connect(address, slots, sys.argv[3])
        except Exception as error:  # noqa: BLE001 - the user's address, network or versions
            talk.say({"error": f"{type(error).__name__}: {error}"})
            return
        talk.say({"slots": count})
        workers = Workers(ray, count, talk)
        try:
            while True:
                _serve(workers, talk)
        finally:
            workers.close()
            ray.shutdown()
    except ConnectionEnded:
        return


def _serve(workers: Workers, talk: Talk) -> None:
    message = talk.hear()
    if "load" in message:
        answer = workers.load(Path(message["load"]), message["gpus"], message["imports_in_child"])
    elif "recorded" in message:
        answer = workers.record(Path(message["recorded"]))
    else:
        answer = workers.probe(message["edits"], message["rest"])
    talk.say({"number": message["number"], **answer})


if __name__ == "__main__":
    main()
