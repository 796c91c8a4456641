"""Prepares a Case for its probes, before the first fork: imports, tensors, inputs, the state of the process."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.process_state import baseline_of_a_repro, is_tuned, switches_now
from minifier.data.case import BackendReference, Case, Graph, Input, Node, State, TensorMeta
from minifier.data.case.literals import script_names
from minifier.data.case.switches import SWITCHES, contexts, known, statements, variables
from minifier.data.case.values import Value
from minifier.data.torch_names import INDUCTOR_CONFIG, INDUCTOR_MODULES, MACHINE_SETTINGS
from minifier.errors import MinifyError, NoRepro
from minifier.process.interpreters import replace_programs_folder
from minifier.torch_side.fx.arguments import write
from minifier.torch_side.fx.graphs import build_graph, example_of, import_targets
from minifier.torch_side.fx.inputs import RecordedValues, is_as_stored, make_inputs
from minifier.torch_side.fx.script_objects import define
from minifier.torch_side.fx.tensors import StoredTensors, one_thread
from minifier.torch_side.torch_private import declared, dynamo, graphs, inductor, modes
from minifier.torch_side.torch_private.modes import built_devices


class StartsThreads(MinifyError):
    """The import of the backend started threads. Forks of the process lack them, and may fail or hang for that."""


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the script has removed it, and the files in it
        return Path("/")


@dataclass
class PreparedCase:
    """Objects that every probe of a Case needs; children inherit them by the fork.

    With `imports_in_child`, each child imports the backend and the graph's targets itself: slower, but right for a
    backend that needs threads started at import. `has_threads`: the import in this process started threads, or may have
    started the driver of the Case's device. Most threads are idle, like a telemetry's, and not missed. `home` is
    the script's current folder.
    """

    case: Case
    tensors: StoredTensors
    imports_in_child: bool = False
    has_threads: bool = False
    recorded: RecordedValues | None = None
    home: Path = field(default_factory=_current_folder)
    fakes: Any = field(default_factory=graphs.new_fake_mode)
    _backend: Any = None
    _examples: dict[tuple[str, int], tuple[Value, Any]] = field(default_factory=dict)
    _inputs: dict[int, tuple[Input, torch.Tensor]] = field(default_factory=dict)
    _contexts: dict[int, Any] = field(default_factory=dict)
    _whole: tuple[Graph, torch.fx.GraphModule] | None = None

    def record(self, folder: Path) -> None:
        """Use values that a child recorded into `folder`."""
        self.recorded = RecordedValues(folder)

    def example(self, node: Node) -> Any:
        """Return the node's `example_value`, made once for all children: each has its own copy by the fork."""
        key = node.name, id(node.value)  # candidates share values; comparing them is as slow as making the tensor
        if key not in self._examples:
            made = example_of(node.value, self._computed if node.is_op else self._fake)
            self._examples[key] = node.value, made  # the reference keeps the id unique
        return self._examples[key][1]

    def _fake(self, meta: TensorMeta, offset: int = 0) -> torch.Tensor:
        tensor = graphs.fake_tensor(
            self.fakes, meta.shape, meta.stride, getattr(torch, meta.dtype), meta.device, offset
        )
        return tensor.requires_grad_() if meta.requires_grad else tensor

    def _computed(self, meta: TensorMeta) -> torch.Tensor:
        """Return a fake tensor for an op's result; with a `grad_fn`, which backends look for, if grad is required."""
        tensor = self._fake(meta, meta.offset)
        if not meta.requires_grad:
            return tensor
        is_whole = meta.span == meta.elements and not meta.offset
        return tensor.clone() if is_whole else torch.ops.aten.alias.default(tensor)

    def prepare(self) -> None:
        """Build the whole graph and the inputs that are stored unchanged, once for all children, each with its copy."""
        for number, item in enumerate(filter(is_as_stored, self.case.inputs)):
            (tensor,) = make_inputs((item,), self.tensors, None, own=False)
            self._inputs[id(item)] = item, tensor
            self._contexts[id(tensor)] = graphs.static_context(tensor, graphs.local_source(f"ready{number}"))
        if not self.imports_in_child:  # what the graph calls may only be known there
            self._whole = self.case.graph, self._built(self.case.graph)

    def ready(self, item: Input) -> torch.Tensor | None:
        """Return the tensor that was made before the fork, or None. A child that calls the compiled object twice needs
        a tensor of its own."""
        entry = self._inputs.get(id(item))
        return None if entry is None else entry[1]

    def module(self, graph: Graph) -> torch.fx.GraphModule:
        """Return a module of the graph in Dynamo's form, for a child that needs a single module."""
        if self._whole is not None and self._whole[0] == graph:
            return self._whole[1]
        return self._built(graph)

    def _built(self, graph: Graph) -> torch.fx.GraphModule:
        return graphs.complete_module(build_graph(graph, self.tensors, self.example, names=graph.input_names))

    def around_call(self, inputs: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
        """Return the context in which Dynamo calls a backend with these inputs."""
        return graphs.as_dynamo_calls(self.fakes, inputs, self._contexts)

    def backend(self) -> Any:
        """Return the value of `backend=` for torch.compile; imported by the first call in this process."""
        if self._backend is None:
            self._backend = imported_backend(self.case.backend, self.case.definitions)
        return self._backend

    def compiler(self, reference: BackendReference) -> Any:
        """Return the function that Dynamo calls with a graph: the backend with its mode and options."""
        return _compiler(self.backend(), reference)

    def preload(self, modules: Sequence[str]) -> None:
        """Import modules of torch that a child had to import (AOTAutograd, inductor): they cost a second or more."""
        if preload(modules):
            look_at_machine(_settings(self.case), is_on_host=self.case.is_on_host)

    def link_files(self) -> None:
        """Link the files that the backend read by relative paths into the current folder, which is the child's own."""
        for name in self.case.backend.files:
            source, link = self.home / name, Path(name)
            if not link.is_absolute() and source.is_file():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(source)

    def know_devices(self) -> None:
        """Import the backend if the Case's devices are unknown to torch without it, or if each child imports all."""
        if self.imports_in_child:
            self.import_all()
            return
        try:
            self._check_devices()
        except RuntimeError:
            self.backend()

    def _check_devices(self) -> None:
        for device in self.case.devices:
            torch.device(device)

    def import_all(self) -> None:
        """Import the backend and the targets of the graph. Raises NoRepro if that fails."""
        self.backend()
        try:
            for line in self.case.script.imports:
                exec(line, {})
            for graph in self.case.graphs:
                import_targets(graph)
            self._check_devices()  # only the script may import the package of its device
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}"
            raise NoRepro(f"what the graph calls cannot be imported outside the script: {what}") from error


_preloaded: set[str] = set()


def preload(modules: Sequence[str]) -> bool:
    """Import modules of torch that a child had to import, for later children; return whether any is new."""
    new = [name for name in modules if name not in _preloaded]
    if new:
        inductor.compile_in_this_process()  # an import would start its workers
        inductor.link_headers()
        with modes.imports_refused_devices():
            for name in new:
                with contextlib.suppress(ImportError):  # one that asks for a device, say
                    importlib.import_module(name)
        _preloaded.update(new)
    return bool(new)


def look_at_machine(settings: str, *, is_on_host: bool) -> None:
    """Make inductor look at the machine and register its patterns once for all children.

    `settings` is a text with the settings that children have: what these change is left to each of them. The look
    compiles C++, and what that imports asks for a device: no child could use it after any answer but NVML's.
    """
    if any(key.rpartition(".")[2] in settings for _, key in MACHINE_SETTINGS):
        return
    with modes.asking_nvml() as by_nvml:
        if by_nvml or is_on_host:
            is_untouched = INDUCTOR_CONFIG.rpartition(".")[0] not in settings
            inductor.warm_up_inductor(patterns=is_untouched and not built_devices())


def _settings(case: Case) -> str:
    return " ".join([*(f"{module}.{key}" for module, key, _ in case.state.config), *(case.backend.options or ())])


def preload_for_run(case: Case) -> None:
    """Import inductor here, for all reductions, controls and questions of this run, if it is the Case's backend.

    Later runs of the script find it imported, so nothing is done where an import there would give something else:
    with variables of torch's, after imports that may patch torch, and where torch was built for a device, which an
    import may ask for.
    """
    comes_first = case.backend.ahead or case.backend.imports or case.script.imports or case.state.environment
    if case.backend.name != dynamo.INDUCTOR or comes_first or is_tuned() or built_devices():
        return
    with declared.COMPILE_THREADS.patched(1):  # the script keeps its own number
        preload(INDUCTOR_MODULES)
        look_at_machine(_settings(case), is_on_host=True)


def imported_backend(backend: BackendReference, definitions: str = "") -> Any:
    """Import the value of `backend=` for torch.compile. Raises NoRepro with the reason if that fails."""
    names: dict[str, Any] = {}
    try:
        for line in backend.ahead:  # the definitions import what needs them
            exec(line, {})
        names.update(define(definitions) if definitions else {}, torch=torch)
        for line in backend.imports:
            exec(line, names)
        value = eval(backend.expression, names)
        _compiler(value, backend)
    except (Exception, SystemExit) as error:
        wanted = "; ".join((*backend.ahead, *backend.imports, f"backend={backend.expression}"))
        raise NoRepro(
            f"the backend {backend.name} cannot be had outside the script: `{wanted}` ends with "
            f"{type(error).__name__}: {error}"
        ) from error
    return value


def _compiler(value: Any, backend: BackendReference) -> Any:
    options = None if backend.options is None else {k: write(v) for k, v in backend.options.items()}
    return dynamo.compiler_for(value, backend.mode, options, backend.dynamic)


def threads() -> int:
    """Return how many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def prepare_case(case: Case, imports_in_child: bool = False, backend: Any = None) -> PreparedCase:
    """Prepare a Case; import everything unless `imports_in_child`. Raises NoRepro.

    `backend` is the value of `backend=` if this process has it; None if it is imported.
    """
    replace_programs_folder(case.import_path)  # a package next to the script hides an installed one here too
    reset_state()
    set_environment(case.state)  # a backend may read it at import
    prepared = PreparedCase(case, StoredTensors(case.tensors), imports_in_child, _backend=backend)
    if not imports_in_child:
        before = threads()
        with modes.asking_nvml():  # for a backend that asks when it is imported
            prepared.import_all()
        prepared.has_threads = threads() > before or not case.is_on_host
    elif any(script_names(value) for _, _, value in case.state.config):
        define(case.definitions)
    prepared.case = replace(case, state=known_state(case.state))
    with graphs.asking_for_no_device(), one_thread():
        prepared.tensors.load_all()
        if case.is_on_host:
            prepared.prepare()  # a fake tensor of a device may start its driver, which does not survive a fork
    return prepared


def reset_state() -> None:
    """Undo, as far as possible, the effects of torch's environment variables on this process.
    The process is then configured like the interpreter of the repro, except for the Case's own state."""
    if not is_tuned():
        return
    baseline = baseline_of_a_repro()
    for (module, key), value in modes.config_values().items():
        if (module, key) in baseline.config and baseline.config[module, key] != value:
            modes.set_config(module, key, baseline.config[module, key])
    now = switches_now()
    for switch in SWITCHES:
        if switch.name in baseline.switches and baseline.switches[switch.name] != now.get(switch.name):
            _execute(switch.statement(baseline.switches[switch.name]))
    set_environment(State())


_original: dict[str, str | None] = {}  # values of other variables before a Case set them


def set_environment(state: State) -> None:
    """Set `os.environ` to this Case's variables.
    Compiler variables that the Case lacks are removed; all others are restored."""
    for name, value in _original.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for name, _ in state.environment:
        _original.setdefault(name, os.environ.get(name))
    for name, _ in variables(os.environ):
        if name not in dict(state.environment):
            del os.environ[name]
    os.environ.update(state.environment)


def known_state(state: State) -> State:
    """Return the state without settings that are unavailable here; `skipped` gets a line for each.

    The Case may come from another version of torch, or lack definitions of the script. Definitions must have been
    imported before this call.
    """
    config, skipped = [], []
    for module, key, value in state.config:
        try:
            missing = "" if modes.has_config(module, key) else "there is no such value here"
            write(value)
        except Exception as error:  # noqa: BLE001 - an expression of the script may raise anything
            missing = f"{type(error).__name__}: {error}"
        if missing:
            skipped.append(f"{module}.{key}: {missing}")
        else:
            config.append((module, key, value))
    switches = tuple(pair for pair in state.switches if known(pair[0]))
    skipped += [f"{name}: not known to this version" for name, _ in state.switches if not known(name)]
    return replace(state, config=tuple(config), switches=switches, skipped=(*state.skipped, *skipped))


def _execute(line: str) -> None:
    exec(line, {"torch": torch})


def set_globals(state: State) -> None:
    """Set environment, default dtype, configuration and switches, as a repro does at its top."""
    set_environment(state)
    torch.set_default_dtype(getattr(torch, state.default_dtype))
    for module, key, value in state.config:
        modes.set_config(module, key, write(value))
    for line in statements(state):
        _execute(line)


@contextlib.contextmanager
def in_modes(state: State) -> Iterator[None]:
    """Enter the contexts of the captured call."""
    with contextlib.ExitStack() as stack:
        for text in contexts(state):
            stack.enter_context(eval(text, {"torch": torch}))
        yield


@contextlib.contextmanager
def in_state(state: State) -> Iterator[None]:
    """Set the whole state; only its modes end with the block."""
    set_globals(state)
    with in_modes(state):
        yield
