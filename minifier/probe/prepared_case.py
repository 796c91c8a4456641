"""What every probe of a Case stands on, made once before the first fork: the graph's targets and the
backend imported, the stored tensors in memory."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from minifier.case import BackendReference, Case, Graph, Input, Node, TensorMeta
from minifier.case.symbolic_sizes import is_symbolic
from minifier.case.values import Value
from minifier.errors import MinifyError, NoRepro
from minifier.fx.build import build_graph, example_of, import_targets
from minifier.fx.node_arguments import write
from minifier.fx.recorded_values import RecordedValues, is_as_stored, make_inputs
from minifier.fx.script_definitions import define
from minifier.fx.tensors import StoredTensors
from minifier.probe.set_state import known_state, make_plain, set_environment
from minifier.torch_private import (
    MACHINE_SETTINGS,
    as_dynamo_calls,
    compiler_for,
    fake_tensor,
    link_headers,
    local_source,
    new_fake_mode,
    static_context,
    tame_inductor,
    warm_up_inductor,
    warm_up_symbols,
)


class StartsThreads(MinifyError):
    """Importing the backend started threads, which do not survive the fork of a probe."""


@dataclass
class PreparedCase:
    """Imported and loaded things that children inherit by the fork, so that none of them has to make them.

    With `late`, the backend and what the graph calls are imported by each child for itself: slower, but
    right for a backend that starts threads when it is imported.
    """

    case: Case
    tensors: StoredTensors
    late: bool = False
    recorded: RecordedValues | None = None
    preloaded: int = 0
    fakes: Any = field(default_factory=new_fake_mode)
    _backend: Any = None
    _examples: dict[tuple[str, int], tuple[Value, Any]] = field(default_factory=dict)
    _inputs: dict[int, tuple[Input, torch.Tensor]] = field(default_factory=dict)
    _contexts: dict[int, Any] = field(default_factory=dict)
    _whole: tuple[Graph, torch.fx.GraphModule] | None = None

    def record(self, folder: Path) -> None:
        """Takes up values that a child recorded into `folder`."""
        self.recorded = RecordedValues(folder)

    def example(self, node: Node) -> Any:
        """The node's `example_value`, made once for all children: each has the fork's own copy."""
        key = node.name, id(node.value)  # candidates share it; looking at all of it takes as long as making the tensor
        if key not in self._examples:
            self._examples[key] = node.value, example_of(node.value, self._fake)  # held, so that the id stays its own
        return self._examples[key][1]

    def _fake(self, meta: TensorMeta) -> torch.Tensor:
        made = fake_tensor(self.fakes, meta.shape, meta.stride, getattr(torch, meta.dtype), meta.device)
        return made.requires_grad_() if meta.requires_grad else made

    def prepare(self) -> None:
        """Makes for all children what they would each make for themselves: the whole graph, and the inputs that are in
        the file as they are. A child changes its own copy alone."""
        for number, item in enumerate(filter(is_as_stored, self.case.inputs)):
            (made,) = make_inputs((item,), self.tensors, None, own=False)
            self._inputs[id(item)] = item, made
            self._contexts[id(made)] = static_context(made, local_source(f"ready{number}"))
        self._whole = self.case.graph, self._built(self.case.graph)

    def ready(self, item: Input) -> torch.Tensor | None:
        """The input, if it is made already: for a child that calls what it compiles once."""
        found = self._inputs.get(id(item))
        return None if found is None else found[1]

    def module(self, graph: Graph) -> torch.fx.GraphModule:
        """A module of the graph as Dynamo has it, for a child that wants one alone."""
        if self._whole is not None and self._whole[0] == graph:
            return self._whole[1]
        return self._built(graph)

    def _built(self, graph: Graph) -> torch.fx.GraphModule:
        return build_graph(graph, self.tensors, self.example, names=graph.input_names)

    def around_call(self, inputs: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
        """What is around Dynamo's calls of a backend, for one with these inputs."""
        return as_dynamo_calls(self.fakes, inputs, self._contexts)

    def backend(self) -> Any:
        """What torch.compile takes as `backend=`; imported on the first call in this process."""
        if self._backend is None:
            self._backend = imported_backend(self.case.backend, self.case.definitions)
        return self._backend

    def compiler(self, reference: BackendReference) -> Any:
        """The function that Dynamo calls with a graph, made from the backend with the mode and options it is given."""
        return _compiler(self.backend(), reference)

    @property
    def asks_for_imports(self) -> bool:
        """Whether children are to tell what they had to import of torch: the first do, until one had nothing to."""
        return not self.late and self.preloaded < _PRELOADS

    def preload(self, modules: Sequence[str], compiled: Path) -> None:
        """Imports what a child had to import of torch (AOTAutograd, inductor): a second or more for each of them.
        `compiled` is where children find what inductor has compiled."""
        self.preloaded = self.preloaded + 1 if modules else _PRELOADS
        preload(modules)
        # What inductor finds out about the machine depends on some of its configuration, which children set.
        if modules and not any((module, key) in MACHINE_SETTINGS for module, key, _ in self.case.state.config):
            warm_up_inductor(compiled)

    def import_all(self) -> None:
        """Imports what the graph calls and the backend; raises NoRepro if that is not possible."""
        self.backend()
        try:
            for line in self.case.script.imports:
                exec(line, {})
            import_targets(self.case.graph)
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}"
            raise NoRepro(f"what the graph calls cannot be imported outside the script: {what}") from error


_PRELOADS = 3


def preload(modules: Sequence[str]) -> None:
    """Imports modules of torch's that a child had to import, for those that come after it."""
    if not modules:
        return
    tame_inductor()  # which would start its workers when it is imported
    link_headers()
    for name in modules:
        with contextlib.suppress(ImportError):  # a module that makes itself up at run time
            importlib.import_module(name)


def extend_path(path: Sequence[str]) -> None:
    """Puts before the ordinary import path what the script had there: its folder, and what it added itself;
    a copy of a package beside the script hides the installed one, as it did for the script."""
    sys.path[:1] = path


def imported_backend(backend: BackendReference, definitions: str = "") -> Any:
    """What torch.compile takes as `backend=`; raises NoRepro, naming what is in the way."""
    names: dict[str, Any] = {}
    try:
        names.update(define(definitions) if definitions else {}, torch=torch)
        for line in backend.imports:
            exec(line, names)
        found = eval(backend.expression, names)
        _compiler(found, backend)
    except (Exception, SystemExit) as error:
        wanted = "; ".join((*backend.imports, f"backend={backend.expression}"))
        raise NoRepro(
            f"the backend {backend.name} cannot be had outside the script: `{wanted}` ends with "
            f"{type(error).__name__}: {error}"
        ) from error
    return found


def _compiler(found: Any, backend: BackendReference) -> Any:
    options = None if backend.options is None else {k: write(v) for k, v in backend.options.items()}
    return compiler_for(found, backend.mode, options, backend.dynamic)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def prepare_case(case: Case, late: bool = False) -> PreparedCase:
    """The bench for a Case, everything imported unless `late`; raises NoRepro, or StartsThreads."""
    extend_path(case.import_path)
    make_plain()
    case = replace(case, state=known_state(case.state))
    set_environment(case.state)  # a backend may look at it when it is imported
    bench = PreparedCase(case, StoredTensors(case.tensors), late)
    if not late:
        before = _threads()
        bench.import_all()
        if _threads() > before:
            raise StartsThreads(case.backend.name)
    bench.tensors.load_all()
    bench.prepare()
    if is_symbolic(case):
        warm_up_symbols()
    return bench
