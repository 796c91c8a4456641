"""Explain a minimal Case by further probes: which part of the compiler it takes, and which settings avoid the failure.

The parts are those of torch's CompilerBisector, and the compilers that a backend gives to AOTAutograd; the names of
passes and ops are torch's. As in the bisector, a part is at fault if the program does not fail without it, and
bisection then finds the pass or the op. Here each run is a probe.
"""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from minifier.data.case import Case
from minifier.data.case.graph import without_lines
from minifier.data.case.literals import setting_statement
from minifier.data.failure import Stage, Verdict
from minifier.data.failure.normalise import shortened
from minifier.data.settings import Settings
from minifier.data.torch_names import AVOIDING, DISABLED_PASSES, DUMP_FOLDER, DUMPS
from minifier.process.machine import cores
from minifier.process.progress import Phase, Progress
from minifier.reduction.changes import changes_of
from minifier.reduction.passes.state import without_config
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed, tell
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import PreparedCase, StartsThreads, imported_backend, prepare_case
from minifier.reduction.probe.verdicts import Judged, LocalProber
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.summary import FAILS
from minifier.torch_side.torch_private.aot import (
    BACKWARD,
    FORWARD,
    INFERENCE,
    PARTITION,
    boxed_graph,
    choose_partitions,
    name_of_compiler,
    observe_aot_compilers,
)
from minifier.torch_side.torch_private.inductor import choose_applications
from minifier.torch_side.torch_private.modes import config_values, has_config

_Item = TypeVar("_Item")
Setting = tuple[str, str, Any]  # module, key, value of a configuration value

# Subsystems of CompilerBisector in the order in which they run, as a reader knows them; then what runs all the others.
_PARTS = {
    "decomposition": "the decompositions",
    "pre_grad_passes": "inductor's passes before autograd",
    "joint_graph_passes": "inductor's passes over the joint graph",
    "post_grad_passes": "inductor's passes after autograd",
    "lowerings": "inductor's lowerings",
    "cudagraphs": "CUDA graphs",
    FORWARD: "the backend's compiler of forward graphs",
    BACKWARD: "the backend's compiler of backward graphs",
    INFERENCE: "the backend's compiler of graphs for inference",
    PARTITION: "the backend's partition function",
}
_FUNCTIONS = {FORWARD, BACKWARD, INFERENCE, PARTITION}  # that a backend gives to AOTAutograd
_NOT_OF_INDUCTOR = {"decomposition", *_FUNCTIONS}
_OF_OPS = {
    "decomposition": "the decomposition of {}",
    "lowerings": "inductor's lowering of {}, or the code made from it",
}
_OWN = "_custom_"  # in the names of the settings that hold a user's passes, which are the names of these passes
OWN_PASS = "the program's own pass"
_OVERLOAD = re.compile(r"<OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
_PHRASES = {(*place, value): phrase for place, value, phrase in AVOIDING}
_PASSES = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes")
# Parts whose application says more than a setting does. Without a lowering, other code around that op is made, too.
_NAMED = {"decomposition", *_PASSES}
# The graphs of compilers, as each gets it and as it changes it, and files of an inductor graph's dump: what else there
# is repeats these.
_DUMPED = ("aot-*.py", "fx_graph_transformed.py", "ir_post_fusion.txt", "output_code.py")
_MAX_DUMP_CHARACTERS = 2**20
_MAX_OTHER_CHARACTERS = 160  # of another failure
_UNCHANGED = "the program as it is"
_APPLIED = "applied "  # begins the key of a fact that a probe tells
_ANSWERS = {
    Verdict.SAME: FAILS,
    Verdict.PASS: "does not fail",
    Verdict.OTHER: "fails in another way",
    Verdict.INVALID: "eager fails too",
    Verdict.UNRESOLVED: "no answer",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answers of the probes of a Case, as (change, result), and the conclusions.

    `part` is a phrase for what is at fault, "" if nothing is known; `reason` a sentence with the probe that tells so.
    With one of `avoiding` the failure is gone, or with one of the changes (`changes.py`) of these lines.
    `artifacts` are the names of the files that were written.
    """

    answers: tuple[tuple[str, str], ...] = ()
    part: str = ""
    reason: str = ""
    avoiding: tuple[Setting, ...] = ()
    changes: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Application:
    """The `number`th application (from 1) of a part, and its name: of a pass, of an op.

    `alone`: it was left out alone, and not with all that follow.
    """

    part: str
    number: int
    total: int
    name: str
    alone: bool = False

    @property
    def phrase(self) -> str:
        """Return `inductor's lowering of relu, or the code made from it`, or a pass's name with its place among all."""
        if not self.name:
            return _PARTS[self.part]
        if self.part in _FUNCTIONS:
            return f"{_PARTS[self.part]}, {self.name}"
        if self.part in _OF_OPS:
            which = f"{self.name}, number {self.number} of {self.total}" if self.total > 1 else self.name
            return _OF_OPS[self.part].format(which)
        if _OWN in self.name:
            return f"{OWN_PASS}, {DISABLED_PASSES[0]}.{self.name}"
        return f"the pass {self.name}, number {self.number} of {self.total} of {_PARTS[self.part]}"

    @property
    def reason(self) -> str:
        """Return what was measured of it."""
        if self.number == 1 or self.alone:
            return "Without it, the reduced program does not fail."
        return f"The reduced program fails with it, and not with the {self.number - 1} before it alone."


def with_setting(case: Case, setting: Setting) -> Case:
    """Return the Case under this setting."""
    state = without_config(setting)(case).state
    return replace(case, state=replace(state, config=(*state.config, setting)))


def explain(
    case: Case,
    settings: Settings,
    seconds: float,
    artifacts: Path,
    show: Callable[[Progress], None],
    imports_in_child: bool = False,
) -> Explanation:
    """Probe the Case with one change after the other, for as many seconds; in a child made for it.

    What the compiler makes of the Case is written into the folder `artifacts`. Without an answer, if the whole Case
    does not show its failure here. Raises StartsThreads if it may need `imports_in_child` for that: each probe then
    imports the backend.
    """
    prepared = prepare_case(case, imports_in_child)
    return _Explainer(prepared, settings, time.monotonic() + seconds, artifacts, show).explanation()


def _without_lines(case: Case) -> Case:
    before = (replace(call, graph=call.graph and without_lines(call.graph)) for call in case.before)
    return replace(case, graph=without_lines(case.graph), before=tuple(before))


def _said(judged: Judged) -> str:
    """Return the answer of a probe in words, with the other failure if it was one."""
    said = _ANSWERS[judged.verdict]
    if judged.verdict is not Verdict.OTHER or judged.failure is None:
        return said
    return f"{said}: {shortened(judged.failure.line, _MAX_OTHER_CHARACTERS)}"


class _TimeIsUp(Exception):
    pass


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The applications of a part that a probe leaves out, by number from 1; `which` in words."""

    part: str
    numbers: range
    which: str

    @property
    def change(self) -> str:
        """Return `without the decompositions`."""
        return f"{self.which} {_PARTS[self.part]}"


class _LimitedProber(LocalProber):
    """Probes Cases, each without the applications that `left_out` has for it, by the identity of the Case; keeps the
    names of what the first applied, by part.

    The graphs that AOTAutograd's compilers get are written into `dumps`, unless it is None.
    """

    left_out: Mapping[int, _LeftOut] = MappingProxyType({})
    dumps: Path | None = None

    def __init__(self, prepared: PreparedCase, scratch: Path) -> None:
        super().__init__(prepared, scratch)
        self.applied: dict[str, list[str]] = {}

    def _dump(self, name: str, gm: torch.fx.GraphModule) -> None:
        if self.dumps is not None:
            text = gm.print_readable(print_output=False)
            (self.dumps / f"{name}.py").write_text(text, encoding="utf-8")

    def _prepared_for(self, case: Case) -> PreparedCase:
        """Return what is prepared; with this Case's backend and definitions, if these are others; in the child."""
        prepared, whole = self.prepared, self.prepared.case
        if (case.backend.expression, case.definitions) == (whole.backend.expression, whole.definitions):
            return prepared
        return replace(prepared, _backend=imported_backend(case.backend, case.definitions), _whole=None)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` may be left out."""

        def job(case: Case) -> dict[str, Any]:
            numbers, counts = itertools.count(), Counter[str]()
            left_out = self.left_out.get(id(case))

            def is_left_out(part: str, name: str) -> bool:
                tell(**{f"{_APPLIED}{next(numbers)}": (part, name)})
                counts[part] += 1
                return left_out is not None and part == left_out.part and counts[part] in left_out.numbers

            def compiled(
                _token: None, part: str, gm: torch.fx.GraphModule, _inputs: Any, call: functools.partial[Any]
            ) -> Any:
                name = f"{part}-{counts[part] + 1}"
                self._dump(name, gm)
                if is_left_out(part, name_of_compiler(call.func)):
                    return boxed_graph(gm)
                result = call()
                self._dump(f"{name}.changed", gm)
                return result

            choose_applications(is_left_out)
            observe_aot_compilers(lambda: None, compiled)
            choose_partitions(is_left_out)
            return evaluate(self._prepared_for(case), case, until)

        jobs = [functools.partial(job, case) for case in cases]
        ended = run_again_if_killed(jobs, limits, self.scratch)
        applied = defaultdict(list)
        for key, names in ended[0].told.items():
            if key.startswith(_APPLIED):
                applied[names[0]].append(_OVERLOAD.sub(r"\1.\2", names[1]))
        self.applied = dict(applied)
        return ended


class _Explainer:
    def __init__(
        self,
        prepared: PreparedCase,
        settings: Settings,
        deadline: float,
        artifacts: Path,
        show: Callable[[Progress], None],
    ) -> None:
        self.case, self.deadline, self.artifacts, self.show = prepared.case, deadline, artifacts, show
        self.folder = Path(tempfile.mkdtemp(prefix="minify-"))
        self.runner = ProbeRunner(
            prepared,
            self.folder,
            settings.match,
            settings.match_log,
            settings.timeout,
            settings.memory,
            grows=False,
            seconds_left=lambda: deadline - time.monotonic(),
        )
        self.runner.prober = self.prober = _LimitedProber(prepared, self.runner.scratch)
        self.answers: list[tuple[str, str]] = []

    def explanation(self) -> Explanation:
        at_fault: _Application | None = None
        avoiding: list[Setting] = []
        passing: list[str] = []
        artifacts: tuple[str, ...] = ()
        try:
            (verdict,) = self._asked([_UNCHANGED], [self.case])
            if verdict is not Verdict.SAME and self.prober.prepared.has_threads:
                raise StartsThreads(self.case.backend.name)
            applied = self.prober.applied
            for group in changes_of(self.case) if verdict is Verdict.SAME else ():
                lines = (each.line for each in group if self._asked([each.line], [each.case]) == [Verdict.PASS])
                passing += list(itertools.islice(lines, 1))
            if verdict is Verdict.SAME and applied:
                has_inductor = bool(set(applied) - _NOT_OF_INDUCTOR)
                artifacts = self._dumped(has_inductor)
                parts = [part for part in _PARTS if part in applied]
                whole = self._answers_without(parts)
                first = next((part for part in parts if whole.get(part) is Verdict.PASS), None)
                at_fault = self._first_at_fault(first, applied[first]) if first is not None else None
                for setting in self._avoiding(at_fault) if has_inductor else ():
                    avoiding.append(setting)
                if at_fault is None and not avoiding:
                    needed = (part for part in parts if whole.get(part) is Verdict.OTHER and len(applied[part]) > 1)
                    at_fault = next(filter(None, (self._alone(part, applied[part]) for part in needed)), None)
        except (_TimeIsUp, KeyboardInterrupt):
            pass  # the answers so far stand
        finally:
            self.runner.journal.close(finished=True)
            shutil.rmtree(self.runner.scratch, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)
        part, reason = (at_fault.phrase, at_fault.reason) if at_fault is not None else ("", "")
        phrases = [_PHRASES[setting] for setting in avoiding if setting in _PHRASES]
        if phrases and (at_fault is None or at_fault.part not in _NAMED):
            line = setting_statement(next(setting for setting in avoiding if setting in _PHRASES))
            part, reason = phrases[0], f"With {line} the reduced program does not fail."
        return Explanation(tuple(self.answers), part, reason, tuple(avoiding), tuple(passing), artifacts)

    def _asked(self, changes: Sequence[str], cases: Sequence[Case]) -> list[Verdict]:
        """Probe the Cases, with these changes in words, at once; raise _TimeIsUp if there is no time left."""
        if time.monotonic() > self.deadline:
            raise _TimeIsUp
        self.show(Progress(Phase.EXPLAINING, step=changes[0], probes=self.runner.total))
        answers = self.runner.probe(cases)
        self.answers += [(each, _said(a)) for each, a in zip(changes, answers, strict=True) if each != _UNCHANGED]
        return [judged.verdict for judged in answers]

    def _dumped(self, has_inductor: bool) -> tuple[str, ...]:
        """Compile the Case once more; return the names of the files with what its compilers get and make.

        No line of the script is in them, as they go into the bundle. An inductor graph has a folder of its own, whose
        name becomes a part of the file's.
        """
        self.prober.dumps = dumps = self.folder / "dumps"
        dumps.mkdir()
        case = _without_lines(self.case)
        for place, value in ((DUMPS, True), (DUMP_FOLDER, str(dumps))) if has_inductor else ():
            case = with_setting(case, (*place, value)) if has_config(*place) else case
        self._asked([_UNCHANGED], [case])
        self.prober.dumps = None
        texts: dict[str, str] = {}
        for path in sorted((each for name in _DUMPED for each in dumps.rglob(name)), key=lambda path: path.stem):
            text = path.read_text(encoding="utf-8", errors="replace")
            if 0 < len(text) <= _MAX_DUMP_CHARACTERS and text not in texts.values():
                texts[path.name if path.parent == dumps else f"{path.parent.name}.{path.name}"] = text
        self.artifacts.mkdir(exist_ok=True)
        for name, text in texts.items():
            (self.artifacts / name).write_text(text, encoding="utf-8")
        return tuple(texts)

    def _without(self, *left_out: _LeftOut) -> list[Verdict]:
        """Probe the Case without each of these applications, at once."""
        cases = [replace(self.case) for _ in left_out]  # a Case may be probed again, alone
        self.prober.left_out = {id(case): each for case, each in zip(cases, left_out, strict=True)}
        try:
            return self._asked([each.change for each in left_out], cases)
        finally:
            self.prober.left_out = {}

    def _batches(self, items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
        """Yield the items, as many together as are probed at once."""
        size = max(1, min(cores(), 2)) if self.case.is_on_host else 1
        return (items[start : start + size] for start in range(0, len(items), size))

    def _answers_without(self, parts: Sequence[str]) -> dict[str, Verdict]:
        """Return the answer without each part, in their order, up to the first without which the Case passes."""
        answers: dict[str, Verdict] = {}
        for batch in self._batches(parts):
            left_out = (_LeftOut(part, range(1, sys.maxsize), "without") for part in batch)
            answers |= zip(batch, self._without(*left_out), strict=True)
            if Verdict.PASS in answers.values():
                break
        return answers

    def _first_at_fault(self, part: str, names: Sequence[str]) -> _Application:
        """Return the application with which the Case fails of a part without which it passes, found by bisection.

        Where it fails in another way without some, these are needed: then each is left out alone.
        """
        passing, failing, total = 0, len(names), len(names)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            which = f"only the first {middle} of {total} of"
            (verdict,) = self._without(_LeftOut(part, range(middle + 1, sys.maxsize), which))
            if verdict not in (Verdict.PASS, Verdict.SAME):
                return self._alone(part, names) or _Application(part, 1, 1, "")
            passing, failing = (middle, failing) if verdict is Verdict.PASS else (passing, middle)
        return _Application(part, failing, total, names[failing - 1])

    def _alone(self, part: str, names: Sequence[str]) -> _Application | None:
        """Return the first application that is at fault alone: the Case passes without it."""
        total = len(names)
        for batch in self._batches(list(enumerate(names, 1))):
            left_out = (
                _LeftOut(part, range(n, n + 1), f"without {name}, number {n} of {total} of") for n, name in batch
            )
            for (number, name), verdict in zip(batch, self._without(*left_out), strict=True):
                if verdict is Verdict.PASS:
                    return _Application(part, number, total, name, alone=True)
        return None

    def _avoiding(self, at_fault: _Application | None) -> Iterator[Setting]:
        """Yield the settings with which the Case passes, that of the pass at fault first."""
        named = [(DISABLED_PASSES, at_fault.name)] if at_fault is not None and at_fault.part in _PASSES else []
        table = [(place, value) for place, value, _ in AVOIDING]
        known = [(place, value) for place, value in (*named, *table) if has_config(*place)]
        now = config_values() | {(module, key): value for module, key, value in self.case.state.config}
        settings = [(*place, value) for place, value in known if now[place] != value]
        for batch in self._batches(settings):
            cases = [with_setting(self.case, each) for each in batch]
            verdicts = self._asked(list(map(setting_statement, batch)), cases)
            yield from (each for each, verdict in zip(batch, verdicts, strict=True) if verdict is Verdict.PASS)
