"""The Case, and the parts of it that are not the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from minifier.case.graph import Graph
from minifier.case.inputs import Input, TensorInput
from minifier.case.values import Symbol, TensorMeta
from minifier.failure import Failure, Tolerance


class BackendSource(str, Enum):
    """How a fresh interpreter gets at the backend."""

    REGISTERED = "registered"
    ENTRY_POINT = "entry-point"
    IMPORTED = "imported"
    EXPRESSION = "expression"
    DEFINED = "defined"
    NONE = "none"


class Level(str, Enum):
    """Whose graph it is: Dynamo's, or one that AOTAutograd made of it and gave to a backend's compiler. At the level
    of source there is none."""

    DYNAMO = "dynamo"
    AOT_FORWARD = "aot-forward"
    AOT_BACKWARD = "aot-backward"
    SOURCE = "source"


class Symbolic(str, Enum):
    """How symbolic sizes came about: dynamic=True, torch._dynamo.mark_dynamic, or a second size that was seen."""

    GIVEN = "given"
    MARKED = "marked"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class BackendReference:
    """A backend in source form: import lines, and an expression that torch.compile takes.

    `names` are the script's own names that the expression, or registering the backend, needs. `folders` are the
    entries of the import path beyond the default ones of this environment. `reason` says why no expression can be
    written (BackendSource.NONE). `made_by` is the function or class that made the backend, if the script may have an
    expression of its own for it.
    """

    name: str
    reach: BackendSource
    expression: str = ""
    imports: tuple[str, ...] = ()
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None
    distribution: str | None = None
    version: str | None = None
    folders: tuple[str, ...] = ()
    reason: str = ""
    names: tuple[str, ...] = ()
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What the process was set to when the backend was called.

    `config` has (module, key, value) of each configuration value that was not its default; `autocast`
    has (device type, dtype); `switches` has (name, value) of each of torch's global switches that was not
    as in a fresh process (minifier.case.switches knows them); `environment` has the variables that torch and
    its compilers read; `skipped` names what could not be written down.
    """

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, str], ...] = ()
    default_dtype: str = "float32"
    config: tuple[tuple[str, str, Any], ...] = ()
    switches: tuple[tuple[str, Any], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """The user's script: its name for people, and what it had on the import path beyond what every
    interpreter of this environment has. `imports` are lines that register custom operators of the graph,
    `ops` those (`ns::op`) that the script itself registers, `folders` those that the graph's functions come from.
    `line` is the script's line that was being run when the backend was called; 0 if there was none."""

    name: str
    path: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    line: int = 0
    seconds: float = 0.0
    graph_number: int = 1
    graphs: int = 1


@dataclass(frozen=True)
class Case:
    """Everything needed to see one failure again. `tensors` is the file with stored values, if any.

    `calls` is how often what the backend gave back has to be called, the failure showing at the last.
    `backward` says that a backward pass follows the call (of a graph of Dynamo's), with seeded random
    tangents. `rate` is how often the failure shows, of all times that it could: 1.0 unless it is flaky.
    `symbolic` tells where symbolic sizes of the inputs come from; None if there are none, or if they do not
    matter. `symbols` has what Dynamo knew of each; the inputs name them. `patience`, of a hang, is the seconds
    after which a run counts as one; `measure` is by what a result that differs from eager's is judged. `definitions`
    is what the backend and the graph need of the script itself, as source. `needs` says, of a reduced one, what no pass
    could take from it.
    """

    graph: Graph
    inputs: tuple[Input, ...]
    backend: BackendReference
    failure: Failure
    state: State = field(default_factory=State)
    script: Script = field(default_factory=lambda: Script("script"))
    tensors: Path | None = None
    calls: int = 1
    level: Level = Level.DYNAMO
    backward: bool = False
    rate: float = 1.0
    symbolic: Symbolic | None = None
    symbols: tuple[Symbol, ...] = ()
    patience: float = 0.0
    measure: Tolerance = field(default_factory=Tolerance)
    definitions: str = ""
    needs: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """What must be on the import path of a fresh interpreter for the backend and the graph's functions."""
        return tuple(dict.fromkeys((*self.backend.folders, *self.script.folders)))

    @property
    def import_path(self) -> tuple[str, ...]:
        """All that the script had on the import path beyond the ordinary."""
        return tuple(dict.fromkeys((*self.script.path, *self.folders)))

    @property
    def devices(self) -> set[str]:
        """Devices of the inputs, and of what the graph makes."""
        values = [*(i.meta for i in self.inputs if isinstance(i, TensorInput)), *(n.value for n in self.graph.nodes)]
        return {value.device for value in values if isinstance(value, TensorMeta)}

    @property
    def elements(self) -> int:
        """Elements of all tensor inputs together."""
        return sum(i.meta.elements for i in self.inputs if isinstance(i, TensorInput))
