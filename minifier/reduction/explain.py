"""Explain a minimal Case by further probes: which part of the compiler it takes, and which settings avoid the failure.

The parts are those of torch's CompilerBisector, and the compilers that a backend gives to AOTAutograd; the names of
passes and ops are torch's. As in the bisector, a part is at fault if the program does not fail without it, and
bisection then finds the pass or the op. Here each run is a probe.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from minifier.data.case import Case
from minifier.data.case.graph import without_lines
from minifier.data.case.literals import WITHOUT, literal, setting_statement
from minifier.data.failure import Verdict
from minifier.data.failure.normalise import shortened
from minifier.data.settings import Settings
from minifier.data.torch_names import AVOIDING, DISABLED_PASSES, DUMP_FOLDER, DUMPS
from minifier.process.machine import cores
from minifier.process.progress import Phase, Progress
from minifier.reduction.passes.state import with_option, without_config, without_option
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed, tell
from minifier.reduction.probe.evaluate import compare_fake_kernels, evaluate
from minifier.reduction.probe.prepared_case import PreparedCase, StartsThreads, imported_backend, prepare_case
from minifier.reduction.probe.verdicts import Judged, judge, last_stage, prepare_cache
from minifier.reduction.probe_runner import LAST_SECONDS, first_seconds
from minifier.reduction.summary import FAILS
from minifier.torch_side.torch_private import aot, inductor, modes

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
    aot.FORWARD: "the backend's compiler of forward graphs",
    aot.BACKWARD: "the backend's compiler of backward graphs",
    aot.INFERENCE: "the backend's compiler of forward graphs",
    aot.PARTITION: "the backend's partition function",
}
_FUNCTIONS = {aot.FORWARD, aot.BACKWARD, aot.INFERENCE, aot.PARTITION}  # that a backend gives to AOTAutograd
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
FAKE_KERNEL = "the fake kernel of "  # begins the phrase for this part
_NOT_AS_PROMISED = "Without a backend, the operator's result and its fake kernel's differ: {}"
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
    With one of `avoiding` the failure is gone, or with one of the `changes_of` the Case, by their lines.
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
    """The `number`th application (from 1) of a part, and its name: of a pass, of an op."""

    part: str
    number: int
    total: int
    name: str

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
        if self.number == 1:
            return "Without it, the reduced program does not fail."
        return f"The reduced program fails with it, and not with the {self.number - 1} before it alone."


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a Case: the part of the program with this `source` is left out, or gets another value.

    `line` is what a person reads: the source in its place, or `without` and the source that is left out.
    """

    source: str
    line: str
    case: Case


def changes_of(case: Case) -> Iterator[tuple[Change, ...]]:
    """Yield the changes of each setting, option, and flag or number among the arguments that make the backend.

    One of them is enough. A setting or option is left out. A flag gets its other value, a number becomes 0: what levels
    and counts call "less".
    """
    for setting in case.state.config:
        source = setting_statement(setting)
        yield (Change(source, f"{WITHOUT}{source}", without_config(setting)(case)),)
    options = case.backend.options or {}
    for key, value in options.items():
        source = f"options={literal({key: value})}"
        left_out = Change(source, f"{WITHOUT}{source}", without_option(key)(case))
        other = _other(value)
        line = f"options={literal({**options, key: other})}"
        yield (left_out,) if other is None else (left_out, Change(source, line, with_option(key, other)(case)))
    yield from ((change,) for change in _of_backend(case))


def _other(value: Any) -> bool | int | None:
    """Return another value of this type; None if none is known to ask for less."""
    if isinstance(value, bool):
        return not value
    return 0 if isinstance(value, int) and value else None


def _of_backend(case: Case) -> Iterator[Change]:
    """Yield a change for each flag and number among the arguments of the calls that make the backend.

    They stand in its expression, or in the script's last statement that binds the name that the expression is.
    """
    name, definitions = case.backend.expression, case.definitions
    for argument, expression in _with_other_arguments(name, ast.parse(name)):
        backend = replace(case.backend, expression=expression)
        yield Change(argument, f"backend={expression}", replace(case, backend=backend))
    statements = ast.parse(definitions).body
    bind = [number for number, statement in enumerate(statements) if name in _names_bound(statement)]
    for number in bind[-1:]:
        for argument, changed in _with_other_arguments(definitions, statements[number]):
            line = ast.get_source_segment(changed, ast.parse(changed).body[number]) or ""
            yield Change(argument, line, replace(case, definitions=changed))


def _names_bound(statement: ast.stmt) -> list[str]:
    """Return the names that an assignment binds."""
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _with_other_arguments(source: str, part: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (keyword argument, source with another value of it) for each flag and number of a call in this part."""
    calls = (node for node in ast.walk(part) if isinstance(node, ast.Call))
    for keyword in (keyword for call in calls for keyword in call.keywords):
        value = keyword.value
        other = _other(value.value) if isinstance(value, ast.Constant) else None
        if keyword.arg and other is not None:
            yield ast.unparse(keyword), _replaced(source, value, repr(other))


def _replaced(source: str, node: ast.expr, text: str) -> str:
    """Return the source with this text in the place of a node, which stands on one line."""
    lines = source.split("\n")
    line = lines[node.lineno - 1].encode()  # ast counts bytes
    lines[node.lineno - 1] = (line[: node.col_offset] + text.encode() + line[node.end_col_offset :]).decode()
    return "\n".join(lines)


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


class _Explainer:
    """Probes a Case with one change after the other.

    `applied` has the names of what the first of the last probes applied, by part. The graphs that AOTAutograd's
    compilers get are written into `dumps`, unless it is None. All probes leave out the parts that are `unneeded`.
    """

    def __init__(
        self,
        prepared: PreparedCase,
        settings: Settings,
        deadline: float,
        artifacts: Path,
        show: Callable[[Progress], None],
    ) -> None:
        self.case, self.prepared, self.settings = prepared.case, prepared, settings
        self.deadline, self.artifacts, self.show = deadline, artifacts, show
        self.scratch = Path(tempfile.mkdtemp(prefix="minify-"))
        prepare_cache(prepared, self.scratch)
        self.probes = 0
        self.answers: list[tuple[str, str]] = []
        self.applied: dict[str, list[str]] = {}
        self.dumps: Path | None = None
        self.unneeded: set[str] = set()

    def explanation(self) -> Explanation:
        at_fault: _Application | None = None
        avoiding: list[Setting] = []
        passing: list[str] = []
        artifacts: tuple[str, ...] = ()
        try:
            (verdict,) = self._asked([_UNCHANGED], [self.case])
            if verdict is not Verdict.SAME and self.prepared.has_threads:
                raise StartsThreads(self.case.backend.name)
            if verdict is Verdict.SAME and (found := self._fake_kernel()) is not None:
                return found
            applied = self.applied
            for group in changes_of(self.case) if verdict is Verdict.SAME else ():
                lines = (each.line for each in group if self._asked([each.line], [each.case]) == [Verdict.PASS])
                passing += list(itertools.islice(lines, 1))
            if verdict is Verdict.SAME and applied:
                has_inductor = bool(set(applied) - _NOT_OF_INDUCTOR)
                artifacts = self._dumped(has_inductor)
                parts = [part for part in _PARTS if part in applied]
                whole = {} if has_inductor else self._answers_of_functions(parts)
                whole |= self._answers_without([part for part in parts if part not in whole])
                first = next((part for part in parts if whole.get(part) is Verdict.PASS), None)
                at_fault = self._first_at_fault(first, applied[first]) if first is not None else None
                for setting in self._avoiding(at_fault) if has_inductor else ():
                    avoiding.append(setting)
        except (_TimeIsUp, KeyboardInterrupt):
            pass  # the answers so far stand
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        part, reason = (at_fault.phrase, at_fault.reason) if at_fault is not None else ("", "")
        if reason and self.unneeded:
            reason += f" Both times without {' and '.join(_PARTS[each] for each in sorted(self.unneeded))}."
        phrases = [_PHRASES[setting] for setting in avoiding if setting in _PHRASES]
        if phrases and (at_fault is None or at_fault.part not in _NAMED):
            line = setting_statement(next(setting for setting in avoiding if setting in _PHRASES))
            part, reason = phrases[0], f"With {line} the reduced program does not fail."
        return Explanation(tuple(self.answers), part, reason, tuple(avoiding), tuple(passing), artifacts)

    def _fake_kernel(self) -> Explanation | None:
        """Return the explanation of a Case with an operator whose fake kernel does not describe its results."""
        self.probes += 1
        job = functools.partial(compare_fake_kernels, self.prepared, self.case)
        told = run_again_if_killed([job], self._limits(), self.scratch)[0].result or {}
        part, reason = f"{FAKE_KERNEL}{told.get('op')}", _NOT_AS_PROMISED.format(told.get("how"))
        return Explanation(part=part, reason=reason) if told.get("op") else None

    def _limits(self) -> Limits:
        """Return the limits of a probe that begins now. Raises _TimeIsUp if there is no time left."""
        seconds_left = self.deadline - time.monotonic()
        if seconds_left < 0:
            raise _TimeIsUp
        seconds = min(self.settings.timeout or first_seconds(self.case), max(seconds_left, LAST_SECONDS))
        return Limits(seconds, self.settings.memory)

    def _asked(self, changes: Sequence[str], cases: Sequence[Case], left_out: Sequence[_LeftOut] = ()) -> list[Verdict]:
        """Probe the Cases, with these changes in words, at once, and each without the applications left out of it.

        Raises _TimeIsUp if there is no time left.
        """
        limits = self._limits()
        self.show(Progress(Phase.EXPLAINING, step=changes[0], probes=self.probes))
        self.probes += len(cases)
        jobs = [functools.partial(self._probe, *pair) for pair in itertools.zip_longest(cases, left_out)]
        ended = run_again_if_killed(jobs, limits, self.scratch)
        for place, job in enumerate(jobs if len(jobs) > 1 else ()):
            if ended[place].timed_out or ended[place].exhausted:  # perhaps for the others' sake
                (ended[place],) = run_again_if_killed([job], limits, self.scratch)
        self.applied = defaultdict(list)
        for key, told in ended[0].told.items():
            if key.startswith(_APPLIED):
                self.applied[told[0]].append(_OVERLOAD.sub(r"\1.\2", told[1]))
        answers = [self._judged(case, end) for case, end in zip(cases, ended, strict=True)]
        self.answers += [(each, _said(a)) for each, a in zip(changes, answers, strict=True) if each != _UNCHANGED]
        return [judged.verdict for judged in answers]

    def _judged(self, case: Case, end: ChildEnd) -> Judged:
        failure, settings = self.case.failure, self.settings
        return judge(end, failure.fingerprint, case.graph.free_names, settings.match, settings.match_log, failure)

    def _probe(self, case: Case, left_out: _LeftOut | None) -> dict[str, Any]:
        """Probe the Case, in a child, without these applications; report what is applied."""
        numbers, counts = itertools.count(), Counter[str]()

        def is_left_out(part: str, name: str) -> bool:
            tell(**{f"{_APPLIED}{next(numbers)}": (part, name)})
            counts[part] += 1
            is_chosen = left_out is not None and part == left_out.part and counts[part] in left_out.numbers
            return is_chosen or part in self.unneeded

        def compiled(
            _token: None, part: str, gm: torch.fx.GraphModule, _inputs: Any, call: functools.partial[Any]
        ) -> Any:
            name = f"{part}-{counts[part] + 1}"
            self._dump(name, gm)
            if is_left_out(part, aot.name_of_compiler(call.func)):
                return aot.boxed_graph(gm)
            result = call()
            self._dump(f"{name}.changed", gm)
            return result

        inductor.choose_applications(is_left_out)
        aot.observe_aot_compilers(lambda: None, compiled)
        aot.choose_partitions(is_left_out)
        return evaluate(self._prepared_for(case), case, last_stage(self.case.failure))

    def _dump(self, name: str, gm: torch.fx.GraphModule) -> None:
        if self.dumps is not None:
            text = gm.print_readable(print_output=False)
            (self.dumps / f"{name}.py").write_text(text, encoding="utf-8")

    def _prepared_for(self, case: Case) -> PreparedCase:
        """Return what is prepared; with this Case's backend and definitions, if these are others; in the child."""
        if (case.backend.expression, case.definitions) == (self.case.backend.expression, self.case.definitions):
            return self.prepared
        return replace(self.prepared, _backend=imported_backend(case.backend, case.definitions), _whole=None)

    def _dumped(self, has_inductor: bool) -> tuple[str, ...]:
        """Compile the Case once more; return the names of the files with what its compilers get and make.

        No line of the script is in them, as they go into the bundle. An inductor graph has a folder of its own, whose
        name becomes a part of the file's.
        """
        self.dumps = dumps = self.scratch / "dumps"
        dumps.mkdir()
        before = (replace(call, graph=call.graph and without_lines(call.graph)) for call in self.case.before)
        case = replace(self.case, graph=without_lines(self.case.graph), before=tuple(before))
        for place, value in ((DUMPS, True), (DUMP_FOLDER, str(dumps))) if has_inductor else ():
            case = with_setting(case, (*place, value)) if modes.has_config(*place) else case
        self._asked([_UNCHANGED], [case])
        self.dumps = None
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
        also = "".join(f", nor {_PARTS[part]}" for part in sorted(self.unneeded))
        changes = [f"{each.which} {_PARTS[each.part]}{also}" for each in left_out]
        return self._asked(changes, [self.case] * len(left_out), left_out)

    def _batches(self, items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
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

    def _answers_of_functions(self, parts: Sequence[str]) -> dict[str, Verdict]:
        """Return the answer without each of the backend's functions; what it fails without stays out from here on.

        So a compiler that fails without a decomposition does not hide that the decomposition is at fault.
        """
        answers: dict[str, Verdict] = {}
        for part in filter(_FUNCTIONS.__contains__, parts):
            (answers[part],) = self._without(_LeftOut(part, range(1, sys.maxsize), "without"))
            if answers[part] is Verdict.SAME:
                self.unneeded.add(part)
        return answers

    def _first_at_fault(self, part: str, names: Sequence[str]) -> _Application:
        """Return the application with which the Case fails of a part without which it passes, found by bisection."""
        passing, failing, total = 0, len(names), len(names)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            which = f"only the first {middle} of {total} of"
            (verdict,) = self._without(_LeftOut(part, range(middle + 1, sys.maxsize), which))
            if verdict not in (Verdict.PASS, Verdict.SAME):
                return _Application(part, 1, 1, "")
            passing, failing = (middle, failing) if verdict is Verdict.PASS else (passing, middle)
        return _Application(part, failing, total, names[failing - 1])

    def _avoiding(self, at_fault: _Application | None) -> Iterator[Setting]:
        """Yield the settings with which the Case passes, that of the pass at fault first."""
        named = [(DISABLED_PASSES, at_fault.name)] if at_fault is not None and at_fault.part in _PASSES else []
        table = [(place, value) for place, value, _ in AVOIDING]
        known = [(place, value) for place, value in (*named, *table) if modes.has_config(*place)]
        now = modes.config_values() | {(module, key): value for module, key, value in self.case.state.config}
        settings = [(*place, value) for place, value in known if now[place] != value]
        for batch in self._batches(settings):
            cases = [with_setting(self.case, each) for each in batch]
            verdicts = self._asked(list(map(setting_statement, batch)), cases)
            yield from (each for each, verdict in zip(batch, verdicts, strict=True) if verdict is Verdict.PASS)
