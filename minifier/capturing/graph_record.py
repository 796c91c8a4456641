"""A graph for a backend: saved before the backend call, and again with real inputs when a call fails."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from minifier.capturing.backend_reference import folders_of, operator_imports
from minifier.capturing.graph_origin import AotGraph, DynamoGraph, ScriptCall
from minifier.capturing.hints import hints
from minifier.capturing.process_state import at_the_call, current_state
from minifier.capturing.symbol_origins import Sizes, symbolic_sizes
from minifier.capturing.terms import Comparing
from minifier.case import (
    BackendReference,
    BackendSource,
    Case,
    Drawn,
    Graph,
    Input,
    Level,
    Scalar,
    ScalarInput,
    Script,
    State,
    Stored,
    TensorInput,
    TensorMeta,
)
from minifier.case.compiled_sizes import as_called
from minifier.case.encode import pack
from minifier.case.literals import SCRIPT
from minifier.case.script_floats import reads_float
from minifier.case.store import ATEN, TENSORS, load, save
from minifier.errors import CannotSave
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.fingerprint import failure_of, of_line
from minifier.failure.observed import describe, text
from minifier.fx.node_arguments import tensor_meta
from minifier.fx.read import read_graph
from minifier.fx.script_definitions import line_of_script
from minifier.fx.tensors import TensorFile, storage_elements
from minifier.process.caught import CallWatch
from minifier.process.memory import spare_memory
from minifier.torch_private import as_hint, backend_error, expression_of, is_fake

if TYPE_CHECKING:
    from minifier.capturing.observer import Observer

_NO_MEMORY = Drawn("no memory")
_PENDING = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL), "", "")


class Record:
    """A graph and its backend, state and failures.

    Nothing raises into the user's script: if saving is impossible, or minify itself fails, `unsaved` has the reason.
    While `comparing`, the comparison compiles or runs the graph, not the script.
    """

    def __init__(
        self,
        observer: Observer,
        number: int,
        gm: torch.fx.GraphModule,
        values: Sequence[Any],
        origin: DynamoGraph | AotGraph,
    ) -> None:
        self.observer, self.number = observer, number
        self.forward: Record | None = None
        self.level, self.place, self.definitions = Level.DYNAMO, 0, ""
        if isinstance(origin, DynamoGraph):
            self.place, self.definitions = origin.place, origin.definitions
        else:
            self.forward, self.level = origin.forward, origin.level
        self.folder = observer.folder / str(number)
        if self.level is Level.AOT_FORWARD:
            self.folder /= ATEN
        self.tensors = TensorFile()
        self.backend_id = 0  # of the backend's function, among the functions of this process
        self.runs = 0
        self.inference = False
        self.comparing = False
        self.watch: Callable[[], CallWatch | None] = lambda: None  # makes a watch for a call of the backend
        self.graph: Graph | None = None
        self.backend = BackendReference("unknown", BackendSource.NONE, reason="it could not be looked at")
        self.state = State()
        self.sizes = Sizes()
        self.unsaved = ""
        self.has_failed = False
        self._kept_call = 0  # the call whose inputs were saved before it began; 0 if none
        with _Guard(self):
            if isinstance(origin, DynamoGraph):
                self.backend, self.state = origin.refer(), current_state(observer.baseline)
            else:
                self.backend, self.state = origin.forward.backend, origin.forward.state
            self.graph = read_graph(gm, self.tensors)
            self.sizes = symbolic_sizes(gm, values, any(map(reads_float, self.graph.ops)))
            self.backend, self.state = self.sizes.with_dynamic_once(self.backend, self.state)
            self._save(self._inputs_by_shape(), _PENDING, tensors=None)  # the backend may kill the process

    def _inputs_by_shape(self) -> tuple[Input, ...]:
        assert self.graph is not None
        return self.sizes.named(tuple(_input_by_shape(node.name, node.value) for node in self.graph.placeholders))

    @property
    def ops(self) -> int | None:
        """Number of call nodes, or None if the graph could not be read."""
        return len(self.graph.ops) if self.graph is not None else None

    def _save(self, inputs: tuple[Input, ...], failure: Failure, tensors: Path | None, call: int = 0) -> None:
        assert self.graph is not None
        imports, defined = operator_imports(node.target for node in self.graph.ops)
        modules = [node.target.partition(":")[0] for node in self.graph.ops if ":" in node.target]
        modules = [module for module in modules if module != SCRIPT]
        configured = [module for module, _, _ in self.state.config]
        packages = {name.partition(".")[0] for name in (*modules, *configured, *(line.split()[1] for line in imports))}
        script = Script(
            self.observer.script,
            path=tuple(os.path.abspath(entry) for entry in sys.path if entry not in self.observer.baseline.path),
            imports=imports,
            ops=defined,
            line=line_of_script(),
            folders=folders_of(packages, self.observer.baseline.path),
            graph_number=self.number,
        )
        case = Case(self.graph, inputs, self.backend, failure, self.state, script, tensors, max(1, call), self.level)
        case = replace(case, symbolic=self.sizes.origin, symbols=self.sizes.symbols, definitions=self.definitions)
        save(as_called(case), self.folder)

    def keep(self, values: Sequence[Any], call: int) -> None:
        """Save the Case with the inputs of a call that is about to begin."""
        self.inference = torch.is_inference_mode_enabled()
        if self.graph is not None and not self.unsaved:
            with _Guard(self):
                self._save_real(values, _PENDING, call)
                self._kept_call, self.has_failed = call, False
        if not self.observer.terms.keep_all:
            self.observer.log.write("kept", number=self.number, call=call, unsaved=self.unsaved)

    def failed(
        self, stage: Stage, error: BaseException, values: Sequence[Any], call: int = 0, changed: bool = False
    ) -> None:
        """Log the failure, and save the Case at the graph's first failure.

        `values` are the call's inputs; `changed`: the failing call has changed them.
        """
        inner = backend_error(error)
        names = self.graph.free_names if self.graph is not None else ()
        suspects: tuple[tuple[str, ...], ...] = ()
        with spare_memory():
            with _Guard(self):
                suspects = hints(inner, self.graph) if self.graph is not None else ()
            self._note(failure_of(stage, describe(inner), text(inner), names, suspects), values, call, changed)

    def fell_back(self, stage: Stage, line: str, values: Sequence[Any], call: int = 0, changed: bool = False) -> None:
        """Log the failure of a call that returned, but logged a line that counts as a failure; save the Case."""
        names = self.graph.free_names if self.graph is not None else ()
        self._note(Failure(of_line(stage, line, names), Kind.SILENT_FALLBACK.value, line), values, call, changed)

    def keep_aten(self, gm: torch.fx.GraphModule, inference: bool, error: BaseException) -> None:
        """Save the ATen graph on which the backend's forward compiler failed, next to Dynamo's graph."""
        inner = backend_error(error)
        with spare_memory():
            aten = Record(self.observer, self.number, gm, (), AotGraph(self, Level.AOT_FORWARD))
            if aten.graph is None or aten.unsaved:
                return
            if aten.graph.attributes:
                shutil.rmtree(aten.folder)  # no reader may see the graph without its tensors
                aten.folder.mkdir()
                tensors = aten.tensors.extended().write(aten.folder / TENSORS)
                aten._save(aten._inputs_by_shape(), _PENDING, tensors)
            suspects = hints(inner, aten.graph)
            failure = failure_of(Stage.COMPILE, describe(inner), text(inner), aten.graph.free_names, suspects)
            case = replace(load(aten.folder), failure=failure)
            # Grad mode off sends the graph to the compiler for inference, whatever the reason was here.
            save(replace(case, state=replace(case.state, grad=False)) if inference else case, aten.folder)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Suppress minify's own exceptions in an optional step."""
        with contextlib.suppress(Exception):
            yield

    def compare(self, compiled: Callable[..., Any], comparing: Comparing, call: ScriptCall) -> None:
        """Compare the call's results with eager's on the kept inputs; log and save the failure if they differ."""
        unable = ""
        with spare_memory(), _Guard(self):
            from minifier.capturing.comparing import compare_call

            if self._kept_call and not self.unsaved:
                outcome = compare_call(self, compiled, comparing, call)
                unable = outcome.unable or outcome.without_gradients
                if outcome.failure is not None:
                    save(outcome.case, self.folder)
                    self._note(outcome.failure, (), self._kept_call, False)
                elif not outcome.unable:
                    facts = {"call": self._kept_call, "gradients": outcome.gradients}
                    excused = [difference.sentence for difference in outcome.excused]
                    self.observer.log.write("compared", number=self.number, excused=excused, **facts)
        if unable or self.unsaved:
            self.observer.log.write("not compared", number=self.number, reason=unable or self.unsaved)

    def _note(self, failure: Failure, values: Sequence[Any], call: int, changed: bool) -> None:
        is_kept = self._kept_call == call and call > 0
        # A compiled backward may empty its argument list to free the memory early.
        lost = self.graph is not None and not is_kept and call > 0 and len(values) != len(self.graph.placeholders)
        if self.graph is not None and not self.unsaved and not self.has_failed:
            with _Guard(self):
                if is_kept:
                    save(replace(load(self.folder), failure=failure), self.folder)
                elif lost or is_fake(values):
                    self._save(self._inputs_by_shape(), failure, None, call)
                else:
                    self._save_real(values, failure, call)
        self.has_failed = True
        self.observer.log.write(
            "failed",
            number=self.number,
            stage=failure.fingerprint.stage.value,
            sentence=failure.sentence,
            traceback=failure.traceback,
            unsaved=self.unsaved,
            failure=pack(failure),
            reference=pack(self.backend),
            backend=self.backend.name,
            call=call,
            changed=(changed or lost) and not is_kept,
            forward=self.forward.number if self.forward is not None else None,
            ops=self.ops,
        )

    def _save_real(self, values: Sequence[Any], failure: Failure, call: int) -> None:
        if call:
            self.state = at_the_call(self.state, self.observer.baseline, self.inference)
        tensors = self.tensors.extended()  # a copy: the inputs must not outlive their call
        inputs = self._real_inputs(values, tensors)
        self._save(inputs, failure, tensors.write(self.folder / TENSORS), call)

    def _real_inputs(self, values: Sequence[Any], tensors: TensorFile) -> tuple[Input, ...]:
        assert self.graph is not None
        placeholders = self.graph.placeholders
        if len(placeholders) != len(values):
            raise CannotSave(f"the graph has {len(placeholders)} inputs, but was called with {len(values)}")
        pairs = [(node, value) for node, value in zip(placeholders, values, strict=True)]
        values_by_name = {n.name: v for n, v in pairs if isinstance(v, torch.Tensor) and not v._is_zerotensor()}
        # Only these ops reach beyond their input.
        reaches = any("as_strided" in node.target for node in self.graph.ops)
        windows = {n: size for n, v in values_by_name.items() if reaches and (size := storage_elements(v))}
        stored = tensors.add_inputs(values_by_name, windows)
        storages: dict[object, int] = {}
        inputs: list[Input] = []
        for node, value in pairs:
            if isinstance(value, torch.Tensor):
                meta = tensor_meta(value, storages)
                parameter, inference = isinstance(value, torch.nn.Parameter), value.is_inference()
                source, storage = stored.get(node.name, _NO_MEMORY), windows.get(node.name, 0)
                storage = 0 if isinstance(source, Stored) and source.shared else storage
                inputs.append(TensorInput(node.name, meta, source, value.is_leaf, parameter, inference, storage))
            elif value is None or isinstance(value, (bool, int, float, str)):
                inputs.append(ScalarInput(node.name, value))
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                inputs.append(ScalarInput(node.name, as_hint(value), expression_of(value)))
            else:
                kind = type(value)
                raise CannotSave(f"the input {node.name}, a {kind.__module__}.{kind.__qualname__}")
        return self.sizes.named(tuple(inputs))


def _input_by_shape(name: str, value: Any) -> Input:
    if isinstance(value, TensorMeta):
        return TensorInput(name, value, Drawn("zeros"))
    return ScalarInput(name, value.value, value.symbol) if isinstance(value, Scalar) else ScalarInput(name, None)


class _Guard:
    """Context that hides exceptions from the script, and stores their text in the record's `unsaved`."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, CannotSave):
            self._record.unsaved = str(error)
        elif isinstance(error, Exception):
            self._record.unsaved = f"minify itself failed on it: {''.join(traceback.format_exception(error))}"
        return isinstance(error, Exception)
