"""One graph that went to a backend: written down ahead, and again with its real inputs when it fails."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from minifier.capture.hints import hints
from minifier.capture.reference import folders_of, operator_imports, reference
from minifier.capture.sizes import Sizes, symbolic_sizes
from minifier.capture.state import at_the_call, current_state
from minifier.case import (
    BackendReference,
    Case,
    Drawn,
    Graph,
    Input,
    Reach,
    Scalar,
    ScalarInput,
    Script,
    State,
    TensorInput,
    TensorMeta,
)
from minifier.case.encode import pack
from minifier.case.store import TENSORS, save
from minifier.errors import CannotSave
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.fingerprint import failure_of
from minifier.failure.observed import describe, text
from minifier.fx.arguments import tensor_meta
from minifier.fx.read import read_graph
from minifier.fx.tensors import TensorFile
from minifier.torch_private import as_hint, backend_error, expression_of

if TYPE_CHECKING:
    from minifier.capture.observer import Observer

_PENDING = Failure(Fingerprint(Stage.COMPILE, Kind.SIGNAL), "", "")


class Record:
    """What is known of one graph. Nothing here raises into the user's script: what cannot be written, or
    a fault of this tool, becomes the reason in `unsaved`."""

    def __init__(
        self, observer: Observer, number: int, compiler_fn: Any, gm: torch.fx.GraphModule, values: Sequence[Any]
    ) -> None:
        self.observer, self.number = observer, number
        self.folder = observer.folder / str(number)
        self.tensors = TensorFile()
        self.runs = 0
        self.graph: Graph | None = None
        self.backend = BackendReference("unknown", Reach.NONE, reason="it could not be looked at")
        self.state = State()
        self.sizes = Sizes()
        self.unsaved = ""
        self._failed = False
        with _Kept(self):
            self.backend = reference(compiler_fn, observer.ordinary_path)
            self.state = current_state(observer.baseline)
            self.graph = read_graph(gm, self.tensors)
            self.sizes = symbolic_sizes(gm, values)
            self.backend, self.state = self.sizes.told(self.backend, self.state)
            # With inputs by their shape alone, before the backend can die on the graph.
            inputs = self.sizes.named(tuple(_by_shape(node.name, node.value) for node in self.graph.placeholders))
            self._save(inputs, _PENDING, tensors=None)

    @property
    def ops(self) -> int | None:
        """Call nodes of the graph, if it could be read."""
        return len(self.graph.ops) if self.graph is not None else None

    def _save(self, inputs: tuple[Input, ...], failure: Failure, tensors: Path | None) -> None:
        assert self.graph is not None
        imports = operator_imports(node.target for node in self.graph.ops)
        modules = [node.target.partition(":")[0] for node in self.graph.ops if ":" in node.target]
        settings = [module for module, _, _ in self.state.config]
        tops = {name.partition(".")[0] for name in (*modules, *settings, *(line.split()[1] for line in imports))}
        script = Script(
            self.observer.script,
            path=tuple(os.path.abspath(entry) for entry in sys.path if entry not in self.observer.ordinary_path),
            imports=imports,
            folders=folders_of(tops, self.observer.ordinary_path),
            graph_number=self.number,
        )
        calls = max(1, self.runs)
        case = Case(self.graph, inputs, self.backend, failure, self.state, script, tensors, calls)
        save(replace(case, symbolic=self.sizes.origin, symbols=self.sizes.symbols), self.folder)

    def failed(
        self, stage: Stage, error: BaseException, values: Sequence[Any], changed: bool = False, inference: bool = False
    ) -> None:
        """Writes the Case of the graph's first failure, and an event for each. `changed` says that the
        failing call had changed the inputs, `inference` that it was made under inference mode."""
        inner = backend_error(error)
        names = self.graph.free_names if self.graph is not None else ()
        found: tuple[tuple[str, ...], ...] = ()
        with _Kept(self):
            found = hints(inner, self.graph) if self.graph is not None else ()
        failure = failure_of(stage, describe(inner), text(inner), names, found)
        if self.graph is not None and not self.unsaved and not self._failed:
            with _Kept(self):
                if stage is Stage.RUN:
                    self.state = at_the_call(self.state, self.observer.baseline, inference)
                inputs = self._real_inputs(values)
                self._save(inputs, failure, self.tensors.write(self.folder / TENSORS))
        self._failed = True
        self.observer.log.write(
            "failed",
            number=self.number,
            stage=stage.value,
            sentence=failure.fingerprint.sentence(),
            traceback=failure.traceback,
            unsaved=self.unsaved,
            failure=pack(failure),
            reference=pack(self.backend),
            backend=self.backend.name,
            call=self.runs,
            changed=changed,
            ops=self.ops,
        )

    def _real_inputs(self, values: Sequence[Any]) -> tuple[Input, ...]:
        assert self.graph is not None
        placeholders = self.graph.placeholders
        if len(placeholders) != len(values):
            raise CannotSave(f"the graph has {len(placeholders)} inputs, but was called with {len(values)}")
        pairs = [(node, value) for node, value in zip(placeholders, values, strict=True)]
        stored = self.tensors.add_inputs({n.name: v for n, v in pairs if isinstance(v, torch.Tensor)})
        storages: dict[object, int] = {}
        inputs: list[Input] = []
        for node, value in pairs:
            if isinstance(value, torch.Tensor):
                meta = tensor_meta(value, storages)
                parameter, inference = isinstance(value, torch.nn.Parameter), value.is_inference()
                inputs.append(TensorInput(node.name, meta, stored[node.name], value.is_leaf, parameter, inference))
            elif value is None or isinstance(value, (bool, int, float, str)):
                inputs.append(ScalarInput(node.name, value))
            elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                inputs.append(ScalarInput(node.name, as_hint(value), expression_of(value)))
            else:
                kind = type(value)
                raise CannotSave(f"the input {node.name}, a {kind.__module__}.{kind.__qualname__}")
        return self.sizes.named(tuple(inputs))


def _by_shape(name: str, value: Any) -> Input:
    if isinstance(value, TensorMeta):
        return TensorInput(name, value, Drawn("zeros"))
    return ScalarInput(name, value.value, value.symbol) if isinstance(value, Scalar) else ScalarInput(name, None)


class _Kept:
    """Around what must not disturb the script: an exception becomes the record's reason."""

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
