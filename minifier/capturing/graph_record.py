"""A graph for a backend: saved before the backend call, and again with real inputs when a call fails."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from minifier.capturing import call_inputs
from minifier.capturing.backend_reference import folders_of, operator_imports, reads_of
from minifier.capturing.captured import EventLog
from minifier.capturing.comparing import ComparedCall, KeptResults, ScriptCall, WorstResult, compare_call
from minifier.capturing.process_state import Baseline, at_the_call, current_state
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script_limits import Comparing, Terms
from minifier.data.case import BackendReference, BackendSource, Case, Graph, Input, Script, State, Symbolic
from minifier.data.case.calls import as_called, called
from minifier.data.case.inputs import source_names
from minifier.data.case.literals import SCRIPT, imports_of_config, packages_imported
from minifier.data.case.serial import pack
from minifier.data.case.store import CASE, TENSORS, load, save
from minifier.data.case.switches import is_secret
from minifier.data.failure import Difference, Failure, Fingerprint, Kind, Stage
from minifier.data.failure.evidence import failure_of_differences
from minifier.data.failure.fingerprint import NO_NODES, failure_of, of_line
from minifier.data.failure.kinds import with_names
from minifier.data.failure.observed import describe, text
from minifier.errors import CannotSave
from minifier.process.machine import spare_memory
from minifier.torch_side.compare.results import not_in_eager
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.fx.script_objects import line_of_script
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private.dynamo import backend_error
from minifier.torch_side.torch_private.graphs import is_fake

_MAX_FRAMES = 4  # innermost frames whose locals are searched

_PENDING = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL), "", "")


@dataclass(slots=True)
class RunContext:
    """What all graphs of a run of the script share.

    folder: for the Cases, each in a sub-folder by the graph's number.
    script: the name of the script.
    compiled_at: when the first compilation had ended, by `time.perf_counter`; None before.
    """

    folder: Path
    script: str
    baseline: Baseline
    terms: Terms
    status: RunningCalls
    log: EventLog
    compiled_at: float | None = None

    def waited(self) -> float:
        """Return the seconds since the end of the script's first compilation; 0 before."""
        return 0.0 if self.compiled_at is None else round(time.perf_counter() - self.compiled_at, 3)


class Record:
    """A graph and its backend, state and failures.

    It is Dynamo's `place`th graph, 0 if tracing failed. `refer` returns the reference to its backend, and the source of
    what the script's module does not define.

    Nothing raises into the user's script: if saving is impossible, or minify itself fails, `unsaved` has the reason.
    While `comparing`, the comparison compiles or runs the graph, not the script.
    """

    def __init__(
        self,
        run: RunContext,
        number: int,
        gm: torch.fx.GraphModule,
        values: Sequence[Any],
        refer: Callable[[], tuple[BackendReference, str]],
        place: int,
    ) -> None:
        self.run, self.place = run, place
        self.forward: Record | None = None  # of a backward pass: the record of its graph
        self.definitions = ""
        self.tensors = TensorFile()
        self.backend_object: Any = None  # the backend's function
        self.graph: Graph | None = None
        self.backend = BackendReference("unknown", BackendSource.NONE, reason="it could not be looked at")
        self.state = State()
        self.reference = pack(self.backend)  # for the events
        self.symbolic: Symbolic | None = None
        self.unsaved = ""
        self._begin(number)
        with _guard(self):
            self.backend, self.definitions = refer()
            self.reference = pack(self.backend)  # of a graph that cannot be read, too
            self.state = current_state(run.baseline)
            self.graph = read_graph(gm, self.tensors)
            self.symbolic = call_inputs.origin_of_symbols(self.graph, values)
            self.backend, self.state = call_inputs.with_dynamic_once(self.symbolic, self.backend, self.state)
            self.reference = pack(self.backend)
            self._save(self._inputs_by_shape(), _PENDING, tensors=None)  # the backend may kill the process

    def _begin(self, number: int) -> None:
        self.number = number
        self.folder = self.run.folder / str(number)
        self.runs = 0
        self.inference = False
        self.comparing = False
        self.has_failed = False
        self._worst = WorstResult(self.folder)
        self.kept_results = KeptResults()
        self._kept_call = 0  # the call whose inputs were saved before it began; 0 if none
        self._not_kept = ""  # why the inputs of a backward pass were not saved, though they were to be

    def of_backward(self, number: int) -> Record:
        """Return the record of this graph's backward pass: its failures are those of the graph's Case with one."""
        record = copy.copy(self)
        record.forward, record.place = self, 0
        record._begin(number)
        if (self._worst.home / CASE).exists():
            record.unsaved = ""  # inputs that could not be kept do not matter here
            with _guard(record):
                record._save_by_shape(_PENDING, 0)
        return record

    def _inputs_by_shape(self) -> tuple[Input, ...]:
        """Describe inputs whose values are not known: few backward passes fail on zeros."""
        assert self.graph is not None
        return call_inputs.inputs_by_shape(self.graph, "zeros" if self.forward is None else "randn")

    @property
    def facts(self) -> dict[str, Any]:
        """What the events of its compilation and its trace say of the graph."""
        forward = self.forward.number if self.forward is not None else None
        return {"number": self.number, "ops": self.ops, "reference": self.reference, "forward": forward}

    @property
    def ops(self) -> int | None:
        """Number of call nodes, or None if the graph could not be read."""
        return len(self.graph.ops) if self.graph is not None else None

    def _save(self, inputs: tuple[Input, ...], failure: Failure, tensors: Path | None, call: int = 0) -> None:
        assert self.graph is not None
        imports, defined = operator_imports(node.target for node in self.graph.ops)
        modules = {node.target.partition(":")[0] for node in self.graph.ops if ":" in node.target} - {SCRIPT}
        packages = {name.partition(".")[0] for name in modules}
        packages |= packages_imported(*imports, *imports_of_config(self.state.config))
        file = getattr(sys.modules[SCRIPT], "__file__", None) or ""
        script = Script(
            self.run.script,
            path=tuple(os.path.abspath(entry) for entry in sys.path if entry not in self.run.baseline.path),
            imports=imports,
            ops=defined,
            file="".join(each if each.isprintable() else "?" for each in os.path.basename(file)),
            line=line_of_script(),
            folders=folders_of(packages, self.run.baseline.path),
            graph_number=self.number if self.forward is None else self.forward.number,
            waited=self.run.waited(),
        )
        variables, files = reads_of(self.backend.imports)
        backend = replace(self.backend, variables=variables, files=files)
        # A secret is kept for a backend that reads it, and for nobody else.
        environment = tuple(pair for pair in self.state.environment if not is_secret(pair[0]) or pair[0] in variables)
        state = replace(self.state, environment=environment)
        case = Case(self.graph, inputs, backend, failure, state, script, tensors, backward=self.forward is not None)
        case = replace(case, symbolic=self.symbolic, definitions=self.definitions)
        save(called(as_called(case), max(1, call)), self.folder)

    def has_kept(self, call: int) -> bool:
        """Whether the inputs of this call were saved before it began, or before the graph was compiled for it."""
        return self._kept_call == call and call > 0

    def keep(self, values: Sequence[Any], call: int) -> None:
        """Save the Case with the inputs of a call that is about to begin; of a backward pass, with its graph's."""
        if self.forward is not None:
            self._keep_of_forward(self.forward, call)
            return
        self.inference = torch.is_inference_mode_enabled()
        self.folder, is_wrong = self._worst.folder, self._worst.failure is not None
        if self.graph is not None and not self.unsaved:
            with _guard(self):
                self.folder.mkdir(exist_ok=True)
                if not self._save_real(values, _PENDING, call):
                    self._kept_call, self.has_failed = call, is_wrong
        if not (self.run.terms.keep_all or is_wrong):
            self.run.log.write("kept", number=self.number, call=call, unsaved=self.unsaved)

    def _keep_of_forward(self, forward: Record, call: int) -> None:
        """Save the Case with the inputs of the graph's call, if that is the one the backward pass is of."""
        self._not_kept = "which call of its graph the backward pass is of is not known"
        if forward.has_kept(call) and forward.runs == call and not self.unsaved:
            with _guard(self):
                save(replace(load(forward.folder), backward=True), self.folder)
                self._kept_call, self._not_kept, self.has_failed = call, "", False
        if not self.run.terms.keep_all:
            self.run.log.write("kept", number=self.number, call=call, unsaved=self.unsaved or self._not_kept)

    def failed(
        self, stage: Stage, error: BaseException, values: Sequence[Any], call: int = 0, changed: bool = False
    ) -> None:
        """Log the failure, and save the Case at the graph's first failure.

        `values` are the call's inputs; `changed`: the failing call has changed them.
        """
        kind = type(error).__name__
        failure = Failure(Fingerprint(stage, Kind.EXCEPTION, (kind,)), kind, "")  # if it cannot be described
        with spare_memory(), _guard(self):
            with _guard(self):
                failure = self._failure_of(stage, error)
            self._note(failure, values, call, changed)

    def _failure_of(self, stage: Stage, error: BaseException) -> Failure:
        inner = backend_error(error)
        failure = failure_of(stage, describe(inner), text(inner), self.graph.free_names if self.graph else NO_NODES)
        if self.graph is not None and self.forward is None:
            with self.undisturbed():
                failure = replace(failure, hints=hints(inner, self.graph))
        return failure

    def fell_back(self, stage: Stage, line: str, values: Sequence[Any], call: int = 0, changed: bool = False) -> None:
        """Log the failure of a call that returned, but logged a line that counts as a failure; save the Case."""
        names = self.graph.free_names if self.graph is not None else NO_NODES
        with _guard(self):
            self._note(Failure(of_line(stage, line, names), Kind.SILENT_FALLBACK.value, line), values, call, changed)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Let an exception of minify's own end no more than an optional step; log it for the report."""
        try:
            yield
        except Exception:  # noqa: BLE001 - it must not reach the script
            self.run.log.write("slip", traceback=traceback.format_exc())

    def compare(self, compiled: Callable[..., Any], comparing: Comparing, call: ScriptCall) -> bool:
        """Compare the call's results with eager's on the kept inputs; log and save the failure if they differ.

        Return whether they differ.
        """
        unable, is_wrong = "", False
        with spare_memory(), _guard(self):
            if self._kept_call and not self.unsaved:
                case = replace(load(self.folder), measure=comparing.measure)
                within = partial(ComparedCall, self.run.status, self.number)
                backward = self.place in comparing.trained
                outcome = compare_call(case, self.tensors, compiled, call, within, backward=backward)
                unable = outcome.unable or outcome.missing
                if outcome.failure is not None:
                    is_wrong = True
                    self._note_wrong(outcome.case, outcome.failure)
                elif not outcome.unable:
                    facts: dict[str, Any] = {"call": self._kept_call, "gradients": outcome.gradients}
                    names = source_names(self.graph) if self.graph is not None else {}
                    excused = [difference.named(names).sentence for difference in outcome.excused]
                    if (right := outcome.furthest) is not None:
                        where = with_names(right.where, names)
                        sentence = f"{where} is off by {right.error:.2g}, where {right.limit:.2g} is allowed"
                        facts["furthest"] = right.share, sentence
                    self.run.log.write("compared", number=self.number, excused=excused, **facts)
        if unable or self.unsaved:
            self.run.log.write("not compared", number=self.number, reason=unable or self.unsaved)
        self._worst.clear()
        self.folder = self._worst.home
        return is_wrong

    def note_overwritten(self, differences: Sequence[Difference]) -> None:
        """Log and save that a later call wrote over the results of a call whose inputs are kept.

        What eager writes over as well does not count.
        """
        with spare_memory(), _guard(self):
            case, call = load(self.folder), self.kept_results.call
            tensors = StoredTensors(case.tensors)
            differences = not_in_eager(
                differences, lambda: build_graph(case.graph, tensors), lambda: make_inputs(case.inputs, tensors, None)
            )
            if differences:
                self._kept_call = call
                save(called(case, call), self.folder)
                self.run.log.write("kept", number=self.number, call=call, unsaved="")
                self._note(failure_of_differences(differences), (), call, False)

    @property
    def may_be_worse(self) -> bool:
        """Whether a further call is compared: the graph has not failed, or a result was wrong in a lesser aspect."""
        return not self.has_failed or self._worst.may_be_worse

    def _note_wrong(self, case: Case, failure: Failure) -> None:
        """Save a call with a wrong result, and log it, unless an earlier call's was as bad."""
        if not self._worst.is_worse(failure):
            return
        save(case, self.folder)
        instead, self.folder = self._worst.replaces(failure), self._worst.home
        if instead:
            self.run.log.write("kept", number=self.number, call=self._kept_call, unsaved="")
        self.has_failed = False
        self._note(failure, (), self._kept_call, False, instead)

    def _note(self, failure: Failure, values: Sequence[Any], call: int, changed: bool, instead: bool = False) -> None:
        is_kept, is_of_backward = self.has_kept(call), self.forward is not None
        lost = "the failing call had changed its inputs" if changed and not (is_kept or is_of_backward) else ""
        lost = lost or self._not_kept
        if self.graph is not None and not self.unsaved and not self.has_failed:
            with _guard(self):
                if is_kept:
                    save(replace(load(self.folder), failure=failure), self.folder)
                elif is_of_backward or is_fake(values):
                    self._save_by_shape(failure, call)
                else:
                    lost = self._save_real(values, failure, call) or lost
        self.has_failed = True
        self.run.log.write(
            "failed",
            number=self.number,
            sentence=failure.named(source_names(self.graph)).sentence if self.graph is not None else failure.sentence,
            unsaved=self.unsaved,
            failure=pack(failure),
            call=call,
            inputs_lost=lost,
            instead=instead,
        )

    def _save_real(self, values: Sequence[Any], failure: Failure, call: int) -> str:
        """Save the inputs; where they cannot be read any more, save their shapes, and return the reason."""
        if call:
            self.state = at_the_call(self.state, self.run.baseline, self.inference)
        tensors = self.tensors.extended()  # a copy: the inputs must not outlive their call
        try:
            assert self.graph is not None
            inputs = call_inputs.with_expressions(self.graph, call_inputs.inputs_of_call(self.graph, values, tensors))
            self._save(inputs, failure, tensors.write(self.folder / TENSORS), call)
            return ""
        except torch.AcceleratorError:
            self._save(self._inputs_by_shape(), failure, None, call)
            return "the failing call had ended the use of the inputs' device" if call else ""

    def _save_by_shape(self, failure: Failure, call: int) -> None:
        has_own = self.graph is not None and self.graph.attributes
        tensors = self.tensors.extended().write(self.folder / TENSORS) if has_own else None
        self._save(self._inputs_by_shape(), failure, tensors, call)


@contextlib.contextmanager
def _guard(record: Record) -> Iterator[None]:
    """Hide exceptions from the script, and store their text in the record's `unsaved`."""
    try:
        yield
    except CannotSave as error:
        record.unsaved = str(error)
    except Exception:  # noqa: BLE001 - it must not reach the script
        record.unsaved = f"minify itself failed on it: {traceback.format_exc()}"


def _node_names(value: Any) -> Iterator[str]:
    if isinstance(value, torch.fx.Node):
        yield value.name
    elif type(value) in (list, tuple) and len(value) <= 8:
        for item in value:
            yield from _node_names(item)


def hints(error: BaseException, graph: Graph) -> tuple[tuple[str, ...], ...]:
    """Return groups of ops that the error points at, best first.

    These are nodes in the locals of the innermost frames, nodes named in the message, ops whose target is named in the
    message, and ops whose target is named in a local string.
    """
    ops = {node.name: node for node in graph.ops}
    targets: dict[str, list[str]] = {}
    for node in graph.ops:
        targets.setdefault(node.short_target, []).append(node.name)
    held: list[str] = []
    strings: list[str] = []
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames[-_MAX_FRAMES:]):  # from the inside out
        if frame.f_globals.get("__name__", "").startswith("minifier."):
            continue
        for value in list(frame.f_locals.values()):
            held += _node_names(value)
            if isinstance(value, str) and len(value) < 80:
                strings += re.findall(r"\w+", value)
    try:
        words = re.findall(r"\w+", str(error))
    except Exception:  # noqa: BLE001 - a faulty __str__ of the user's exception only gives no hint
        words = []
    groups = [
        [name for name in held if name in ops],
        [word for word in words if word in ops and word not in targets],
        [name for word in dict.fromkeys(words) for name in targets.get(word, ())],
        [name for word in dict.fromkeys(strings) for name in targets.get(word, ())],
    ]
    return tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups if group))
