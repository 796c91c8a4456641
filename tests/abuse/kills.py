"""Kill processes of `minify` at random moments, and count how often the result is the undisturbed one."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from aftermath import World
from clock import wait_until
from failing_scripts import SLOW
from vocabulary import Project
from warm_command import WarmProcess

from minifier.process.descendants import descendants

VICTIMS = ("main", "stage", "probe")
_MAX_SECONDS = 300.0  # for a command
_MAX_KILLS = {"main": 6, "stage": 4, "probe": 12}  # on the way to one result
_BIRTHS = {"main": (1, 60), "stage": (1, 50), "probe": (4, 15)}  # processes that begin between two kills


@dataclass
class Row:
    """What became of the runs in which one kind of process was killed."""

    victim: str
    kills: int = 0
    results: int = 0
    same: int = 0
    left: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children; none for a process that has ended."""
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def victims(main: int, victim: str) -> list[int]:
    """Return the processes of this kind: the command itself, its children, or their children."""
    if victim == "main":
        return [main]
    stages = children(main)
    return stages if victim == "stage" else [pid for stage in stages for pid in children(stage)]


class Killer:
    """Runs commands in a project, and kills what `victim` names, until there are enough kills."""

    def __init__(self, folder: Path, victim: str, seed: int) -> None:
        self.project = Project(folder)
        self.world = World(self.project)
        self.row = Row(victim)
        self._chance = random.Random(seed)
        self.project.write(SLOW)
        self._last = folder
        self.undisturbed = self._result(self._new_out(), 0)

    def kill(self, wanted: int) -> Row:
        """Kill until there were so many kills."""
        while self.row.kills < wanted:
            out = self._new_out()
            result = self._result(out, min(_MAX_KILLS[self.row.victim], wanted - self.row.kills))
            self.row.results += 1
            self.row.same += result == self.undisturbed
            if result != self.undisturbed:
                self.row.notes.append(f"{out}: {result}")
            self.row.left += self._left()
        return self.row

    def _new_out(self) -> Path:
        return self.project.root / f"out-{self.row.results}-{uuid.uuid4().hex}"

    def _result(self, out: Path, kills: int) -> tuple[str, str]:
        """Run and go on until a command ends by itself; return the minimal graph and the repro."""
        command = ("run", "--verify", "1", "--out", out, "failing.py")
        while True:
            process = self.project.start_warm(*command)
            before = self.row.kills
            self._disturb(process, kills, out / "case" / "case.json")
            kills -= self.row.kills - before
            code = process.wait(_MAX_SECONDS)
            if code == 0:
                self._last = out
                return (out / "minimal" / "graph.json").read_text(), (out / "repro.py").read_text()
            said = process.communicate()[1]
            if self.row.kills == before:
                return f"exit code {code}", said
            if (out / "case" / "case.json").exists():
                command = ("reduce", "--verify", "1", out)
            elif out.exists():  # killed before there was a Case: nothing is known that could go on
                command = ("run", "--verify", "1", "--out", out / "again", "failing.py")
                out = out / "again"

    def _disturb(self, process: WarmProcess, kills: int, case: Path) -> None:
        """Kill up to so many processes at random moments, until the command ends.

        Before there is a Case, the stage is the script, and its children are the script's: one kill of the script is
        answered by another run, a second counts as its failure, and a child's death is the script's own affair.
        """
        births = _BIRTHS[self.row.victim]
        to_script = {"main": kills, "stage": 1, "probe": 0}[self.row.victim]
        while kills and process.poll() is None:
            self._wait_for_births(process, self._chance.randint(*births))
            found = self._wait_for_victims(process, case, to_script)
            if found:
                to_script -= not case.exists()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._chance.choice(found), signal.SIGKILL)
                    self.row.kills += 1
                    kills -= 1

    def _wait_for_births(self, process: WarmProcess, births: int) -> None:
        """Wait until so many processes of the command have begun, or the command has ended."""
        before, born = set(descendants(process.pid)), set[int]()

        def is_enough() -> bool:
            born.update(set(descendants(process.pid)) - before)
            return len(born) >= births or process.poll() is not None

        wait_until(is_enough, seconds=_MAX_SECONDS)

    def _wait_for_victims(self, process: WarmProcess, case: Path, to_script: int) -> list[int]:
        """Wait until there is a process to kill; none if the command ends before."""

        def found() -> list[int] | None:
            if process.poll() is not None:
                return [0]
            return victims(process.pid, self.row.victim) if to_script or case.exists() else None

        return [pid for pid in wait_until(found, seconds=_MAX_SECONDS) or [] if pid]

    def _left(self) -> list[str]:
        """Return what is left besides the result, in the folder that has one too."""
        partial = self._last.rglob(".*")
        return [*self.world.left(), *(f"file {path.relative_to(self._last)}" for path in partial)]
