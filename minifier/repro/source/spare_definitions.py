"""Leave out parts of the script's definitions that a repro does not need: statements, methods, entries of tables."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier import search
from minifier.capturing.slicing.module_statements import missing_names
from minifier.data.failure import Fingerprint, Stage
from minifier.data.settings import Settings
from minifier.errors import StoppedAtOnce
from minifier.process.descendants import adopt_orphans
from minifier.process.interpreters import replace_programs_folder
from minifier.process.interrupts import interrupt_once
from minifier.process.progress import ProgressPipe, Ui, run_for_result
from minifier.reduction.probe.verdicts import seen
from minifier.repro.source.conditions import SameEvidence, SourceRun
from minifier.repro.source.probe import SourceLab, passed
from minifier.repro.source.reduce_script import shows_failure_of_call
from minifier.repro.source.statement_tree import Tree


@dataclass(frozen=True, slots=True)
class ShortDefinitions:
    """Definitions of which the failure needs every part; functions and methods count as one part each.

    `before` and `after` are the numbers of parts, `probes` the probes by verdict. `is_proved`: no part can be left out.
    """

    source: str
    before: int
    after: int
    is_proved: bool
    probes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DefinitionsToShorten:
    """Definitions, without imports, and the script that contains them once.

    The script shows `sought`. It imports modules from `folders`. With `passes_in_eager` every candidate has to pass
    with torch.compile in eager mode. `nearest` is a script that passes, and differs little from this one; "" if none is
    known. It has the same definitions, and has to pass with each candidate's.
    """

    source: str
    script: str
    sought: Fingerprint
    folders: Sequence[str]
    passes_in_eager: bool
    nearest: str = ""


def parts_of(source: str) -> Tree:
    """Return the definitions as parts that can be left out. The code that a backend runs is never changed."""
    return Tree(source, whole_functions=True, entries=True)


@dataclass(frozen=True, slots=True)
class _PartSearchAdapter:
    """Presents the parts of the definitions to the search."""

    lab: SourceLab
    tree: Tree
    task: DefinitionsToShorten

    @property
    def workers(self) -> int:
        return self.lab.workers

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        codes = [self.tree.code(each) for each in candidates]
        held = self.lab.holds([self.task.script.replace(self.task.source, code) for code in codes])
        return [shows and self._nearest_passes(code) for shows, code in zip(held, codes, strict=True)]

    def _nearest_passes(self, code: str) -> bool:
        """Whether the script that is nearest to the failing one, and passes, does so with these definitions too."""
        nearest = self.task.nearest
        return not nearest or passed(self.lab.run(nearest.replace(self.task.source, code)))


def _shorten(
    task: DefinitionsToShorten, settings: Settings, scratch: Path, channel: ProgressPipe, started: float
) -> ShortDefinitions | None:
    """Shorten the definitions in this process, whose forks run the candidates; None if the script does not fail."""
    replace_programs_folder(task.folders)
    lab = SourceLab(
        scratch,
        scratch / "journal.jsonl",
        task.sought,
        settings.match,
        settings.memory,
        settings.timeout,
        missing=missing_names(task.script),
        passes_in_eager=task.passes_in_eager,
        phase="definitions",
        show=channel.show,
    )
    end = lab.run(task.script)
    failure = seen(end)
    if failure is None or not _may_be_sought(failure.fingerprint, task.sought):
        return None
    lab.sought, lab.conditions = failure.fingerprint, [SameEvidence(SourceRun(task.script, end))]
    if task.nearest and not passed(lab.run(task.nearest)):
        return None
    tree = parts_of(task.source)
    problem = search.Problem(parents=tree.parents, kinds=tree.kinds)
    budget = search.Budget.of(settings.max_probes, settings.budget, started)
    result = search.reduce(problem, _PartSearchAdapter(lab, tree, task), budget=budget)
    return ShortDefinitions(
        tree.code(result.kept),
        problem.size,
        len(result.kept),
        result.ended is search.Ending.PROVED,
        tuple((verdict.value, count) for verdict, count in lab.counts.items()),
    )


def _may_be_sought(shown: Fingerprint, sought: Fingerprint) -> bool:
    """Whether a run of the script showed its failure. A wrong result is a failed assertion there."""
    return "AssertionError" in shown.types if sought.stage is Stage.COMPARE else shows_failure_of_call(sought, shown)


def shorten_definitions(
    task: DefinitionsToShorten, settings: Settings, ui: Ui, interrupting: Callable[[], None] = lambda: None
) -> ShortDefinitions | None:
    """Leave out parts of the definitions, one probe for each candidate script, in a forked child.

    Return None if a run of the whole script, in a fork, does not show the failure. `interrupting` is called at the
    first Ctrl-C, which ends the search; the second raises StoppedAtOnce.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="minify-") as folder:

        def work(channel: ProgressPipe) -> ShortDefinitions | None:
            interrupt_once()
            adopt_orphans()
            try:
                return _shorten(task, settings, Path(folder), channel, started)
            except KeyboardInterrupt:  # before there was a result
                return None

        shortened, end = run_for_result(work, ui, interrupting)
        if end.interrupted_again:
            raise StoppedAtOnce("interrupted twice: the repro is verified, and there are no reports")
    return shortened
