"""The Case, and its sections other than the graph and the inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from minifier.data import fields
from minifier.data.case.graph import Graph
from minifier.data.case.inputs import Input, TensorInput, check_inputs
from minifier.data.case.values import TensorMeta
from minifier.data.failure import Failure, Tolerance
from minifier.data.fields import Defect


class BackendSource(str, Enum):
    """How a fresh interpreter obtains the backend."""

    REGISTERED = "registered"
    ENTRY_POINT = "entry-point"
    IMPORTED = "imported"
    EXPRESSION = "expression"
    DEFINED = "defined"
    NONE = "none"


class Level(str, Enum):
    """What is reduced: Dynamo's graph, or the script, which has no graph."""

    DYNAMO = "dynamo"
    SOURCE = "source"


class Symbolic(str, Enum):
    """Why numbers are symbolic: dynamic=True, torch._dynamo.mark_dynamic, or another size or float in a later call."""

    GIVEN = "given"
    MARKED = "marked"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class BackendReference:
    """A backend in source form: import lines, and an expression that torch.compile takes.

    names: the script's own names that the expression or the registration needs.
    folders: entries of the import path beyond this environment's default.
    reason: why no expression exists (BackendSource.NONE).
    made_by: the function or class that created the backend; the script may call it in its own expression.
    ahead: imports of the script that precede `imports`, in this order: they patch something for the backend.
    variables: names of the environment variables that it read in the script's process, when imported or compiling.
    files: paths of the files that it read there; a relative path starts at the script's current folder.
    """

    name: fields.Line
    reach: BackendSource
    expression: fields.ExpressionOrNone = ""
    imports: tuple[fields.ImportLine, ...] = ()
    mode: fields.Line | None = None
    options: dict[fields.Text, Any] | None = None
    dynamic: bool | None = None
    distribution: fields.Line | None = None
    version: fields.Line | None = None
    folders: tuple[fields.Folder, ...] = ()
    reason: fields.Text = ""
    names: tuple[fields.Identifier, ...] = ()
    made_by: fields.Line = ""
    ahead: tuple[fields.ImportLine, ...] = ()
    variables: tuple[fields.Variable, ...] = ()
    files: tuple[fields.Folder, ...] = ()

    def check(self) -> None:
        """Raise ValueError for a backend that can be reached, but not how."""
        if not self.expression and self.reach is not BackendSource.NONE:
            raise Defect("expected the expression of the backend", ".expression")


EAGER = BackendReference("eager", BackendSource.REGISTERED, '"eager"')
TORCH_COMPILE = BackendReference("torch.compile", BackendSource.REGISTERED, '"eager"')  # what fails with any backend


@dataclass(frozen=True, slots=True)
class State:
    """The settings of the process at the call of the backend.

    autocast: (device type, dtype) pairs.
    config: (module, key, value) of each configuration value other than its default.
    switches: (name, value) of torch's global switches that differ from a fresh process (minifier.data.case.switches).
    environment: the variables that torch and its compilers read, and those that the script set.
    skipped: names of the settings that cannot be serialised.
    """

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[fields.Device, fields.Dtype], ...] = ()
    default_dtype: fields.Dtype = "float32"
    config: tuple[tuple[fields.Dotted, fields.Dotted, Any], ...] = ()
    switches: tuple[tuple[fields.Dotted, bool | int | float | str | None], ...] = ()
    environment: tuple[tuple[fields.Variable, fields.Text], ...] = ()
    skipped: tuple[fields.Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """The user's script.

    path: entries of its import path beyond this environment's default.
    imports: lines that register custom operators of the graph.
    folders: the folders of the graph's functions.
    ops: custom operators (`ns::op`) that the script itself registers.
    file: the name of the script's file, `train.py`.
    line: the script's line that led to the backend call, or 0.
    slowest: seconds of its longest backend call that returned.
    sight: what the script sees otherwise than in eager mode, where each graph is right; "" where a graph or it fails.
    waited: seconds from the end of its first compilation to the failing call.
    """

    name: fields.FileName
    path: tuple[fields.Folder, ...] = ()
    imports: tuple[fields.ImportLine, ...] = ()
    folders: tuple[fields.Folder, ...] = ()
    ops: tuple[fields.Operator, ...] = ()
    file: fields.Line = ""
    line: fields.Natural = 0
    seconds: fields.Seconds = 0.0
    slowest: fields.Seconds = 0.0
    waited: fields.Seconds = 0.0
    graph_number: fields.Natural = 1
    sight: fields.Text = ""
    graphs: fields.Natural = 1  # 0 as long as the first one is traced


class Ones(str, Enum):
    """Which tensors have ones in an earlier call; zeros if their dtype is an integer's or bool.

    Parameters have the same values in each call, as in a script that calls a module, unless the script changes them.
    """

    INPUTS = "inputs"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of compiled code before the failing call; it compiles its graph if that was not called before.

    graph: None for the Case's own graph.
    inputs: of another graph; the Case's own graph has the inputs of the failing call.
    sizes: (symbol, value) pairs of the Case's own graph: the symbols, of sizes and of the script's floats, that have
        another value in this call.
    ones: of the Case's own graph: the tensors that have ones in this call, instead of the failing call's values.
    times: the number of such calls in a row.
    backward: whether a backward pass follows each call of another graph.
    pause: seconds to wait after these calls: a backend may compile in the background meanwhile.
    """

    graph: Graph | None = None
    inputs: tuple[Input, ...] = ()
    sizes: tuple[tuple[fields.Identifier, int | float], ...] = ()
    ones: Ones | None = None
    times: fields.Times = 1
    backward: bool = False
    pause: fields.Seconds = 0.0

    def check(self) -> None:
        """Raise ValueError unless the call has its graph's inputs, or changes those of the Case's own graph."""
        if self.graph is not None:
            check_inputs(self.graph, self.inputs)
        if (self.graph is None and self.inputs) or (self.graph is not None and self.has_other_inputs):
            raise ValueError("expected `inputs` of another graph, or `sizes` or `ones` of the Case's own")

    @property
    def is_repeat(self) -> bool:
        """Whether this is a call of the Case's own graph with the inputs of the failing call."""
        return self.graph is None and not self.has_other_inputs

    @property
    def has_other_inputs(self) -> bool:
        """Whether it calls the Case's own graph with other sizes or values than the failing call."""
        return bool(self.sizes) or self.ones is not None

    @property
    def has_other_sizes(self) -> bool:
        """Whether it calls the Case's own graph with another size, not only with another float."""
        return any(type(value) is int for _, value in self.sizes)


@dataclass(frozen=True)
class Case:
    """All data needed to reproduce a failure.

    tensors: the file of stored values.
    before: the calls before the failing call without which it passes, in their order.
    backward: whether a backward pass follows, with seeded random tangents.
    rate: the share of runs that fail; 1.0 unless the failure is flaky.
    symbolic: why sizes or floats are symbolic; None if none is, or if the failure does not need it.
    patience: seconds after which a run counts as a hang.
    measure: the tolerance for a result that differs from eager's.
    definitions: source of the script's definitions that the backend and the graph need.
    needs: properties of a reduced Case that no pass could remove.
    any_graph: the backend fails in the same way on a graph without ops, so no op is to blame.
    through_dynamo: probes call torch.compile on the graph's function, though it has no symbols.
    while_tracing: torch.compile itself fails while tracing an op of the graph, before any backend is called.
    """

    graph: Graph
    inputs: tuple[Input, ...]
    backend: BackendReference
    failure: Failure
    state: State = field(default_factory=State)
    script: Script = field(default_factory=lambda: Script("script"))
    tensors: Path | None = None
    before: tuple[Call, ...] = ()
    level: Level = Level.DYNAMO
    backward: bool = False
    rate: fields.Rate = 1.0
    symbolic: Symbolic | None = None
    patience: fields.Seconds = 0.0
    measure: Tolerance = field(default_factory=Tolerance)
    definitions: fields.Source = ""
    needs: tuple[fields.Text, ...] = ()
    any_graph: bool = False
    through_dynamo: bool = False
    while_tracing: bool = False

    @property
    def is_of_torch(self) -> bool:
        """Whether torch.compile itself fails, so that a control runs uncompiled, not with the backend eager."""
        return self.while_tracing or self.level is Level.SOURCE or self.backend.expression == EAGER.expression

    @property
    def ignores_values(self) -> bool:
        """Whether only the layouts of inputs matter, as for a backend that fails while compiling.

        A failure while tracing needs the values as well: they must pass without torch.compile.
        """
        return self.failure.fingerprint.stage.compiles and not self.while_tracing

    @property
    def calls(self) -> int:
        """How often the Case's own graph is called with the inputs of the failing call, that call included."""
        return 1 + sum(call.times for call in self.before if call.is_repeat)

    @property
    def calls_in_a_row(self) -> int:
        """How many of the `calls` are at the end, with no other call and no pause between."""
        last = self.before[-1] if self.before else None
        return 1 + last.times if last is not None and last.is_repeat and not last.pause else 1

    @property
    def pauses(self) -> bool:
        """Whether the failing call needs time to pass after an earlier one."""
        return any(call.pause for call in self.before)

    @property
    def has_other_inputs(self) -> bool:
        """Whether an earlier call of the Case's own graph has other sizes or values."""
        return any(call.has_other_inputs for call in self.before)

    @property
    def others(self) -> tuple[Call, ...]:
        """The earlier calls of other graphs."""
        return tuple(call for call in self.before if call.graph is not None)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The Case's own graph, and the other graphs that are called before."""
        return (self.graph, *(call.graph for call in self.before if call.graph is not None))

    def of(self, call: Call) -> Case:
        """Return the Case of an earlier call of another graph: that call alone."""
        assert call.graph is not None, "a call of the Case's own graph is no Case of its own"
        sections = {"graph": call.graph, "inputs": call.inputs, "backward": call.backward}
        return replace(self, **sections, before=(), symbolic=None)  # type: ignore[arg-type]

    @property
    def folders(self) -> tuple[str, ...]:
        """Import path entries that the backend and the graph's functions need."""
        return tuple(dict.fromkeys((*self.backend.folders, *self.script.folders)))

    @property
    def import_path(self) -> tuple[str, ...]:
        """All entries of the script's import path beyond the environment's default."""
        return tuple(dict.fromkeys((*self.script.path, *self.folders)))

    @property
    def is_on_host(self) -> bool:
        """Whether no value of the graph is on a device with a driver."""
        return not self.accelerators

    @property
    def accelerators(self) -> set[str]:
        """Devices with a driver: all but the CPU, and `meta`, which has no memory."""
        return self.devices - {"cpu", "meta"}

    @property
    def tensor_inputs(self) -> list[TensorInput]:
        """The inputs that are tensors, in their order."""
        return [item for item in self.inputs if isinstance(item, TensorInput)]

    @property
    def devices(self) -> set[str]:
        """Devices of the inputs and of all values in the graph."""
        values = [*(item.meta for item in self.tensor_inputs), *(n.value for n in self.graph.nodes)]
        return {value.device for value in values if isinstance(value, TensorMeta)}

    @property
    def elements(self) -> int:
        """Number of elements of all tensor inputs."""
        return sum(item.meta.elements for item in self.tensor_inputs)
