"""The cells of the matrix: every faulty backend, at each stage and in each graph that it knows, in both dtypes and with
both kinds of sizes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from vocabulary import source_of

from minifier.data.case import Level
from minifier.data.failure import Aspect, Kind, Stage

DYNAMO, FORWARD, BACKWARD = "dynamo", "forward", "backward"
COMPILE, RUN = "compile", "run"
FALLBACK_LOG = "falling back to eager"


@dataclass(frozen=True)
class Fault:
    """What a faulty backend can be asked for, and what comes of it. `stages` and `places` are those that it has;
    `asks` says whether it takes them as options, or has them by itself. `options` are further ones."""

    kind: Kind
    stages: tuple[str, ...] = (COMPILE, RUN)
    places: tuple[str, ...] = (DYNAMO, FORWARD, BACKWARD)
    asks: tuple[str, ...] = ("op", "stage", "level")
    options: dict[str, Any] = field(default_factory=dict)
    partner: str = ""
    aspect: Aspect | None = None
    ops: tuple[str, ...] = ("torch.tanh",)


_SILENT = {"stages": (RUN,), "asks": ("op", "level")}  # what is wrong is seen once the result is there
_RESULT = {"stages": (RUN,), "places": (DYNAMO,), "asks": ()}

FAULTS = {
    "raise": Fault(Kind.EXCEPTION),
    "segfault": Fault(Kind.SIGNAL),
    "abort": Fault(Kind.SIGNAL),
    "exit": Fault(Kind.EXIT, options={"code": 7}),
    "hang": Fault(Kind.TIMEOUT),
    "memory": Fault(Kind.OUT_OF_MEMORY, options={"limit_mib": 48}),
    "pair": Fault(Kind.EXCEPTION, partner="softmax", ops=("torch.tanh", "torch.softmax")),
    "adjacent": Fault(Kind.EXCEPTION, partner="softmax", ops=("torch.tanh", "torch.softmax")),
    "two_errors": Fault(
        Kind.EXCEPTION, partner="layer_norm", ops=("torch.nn.functional.layer_norm", "torch.tanh")
    ),
    "flaky": Fault(Kind.EXCEPTION, options={"probability": 0.5}),
    "on_call": Fault(Kind.EXCEPTION, stages=(RUN,), asks=("op", "level")),
    "wrong": Fault(Kind.WRONG_RESULT, **_SILENT, options={"factor": 1.5}, aspect=Aspect.VALUES),
    "nan": Fault(Kind.NON_FINITE, **_SILENT, aspect=Aspect.NON_FINITE),
    "dtype": Fault(Kind.WRONG_RESULT, **_RESULT, aspect=Aspect.DTYPE),
    "stride": Fault(Kind.WRONG_RESULT, **_RESULT, aspect=Aspect.STRIDE),
    "mutation": Fault(Kind.WRONG_RESULT, **_RESULT, aspect=Aspect.MUTATION, ops=("add_",)),
    "alias": Fault(Kind.WRONG_RESULT, **_RESULT, aspect=Aspect.ALIASING, ops=("view",)),
    "gradient": Fault(
        Kind.WRONG_RESULT,
        stages=(RUN,),
        places=(BACKWARD,),
        asks=(),
        options={"factor": 1.5},
        aspect=Aspect.GRADIENT,
    ),
    "fallback": Fault(Kind.SILENT_FALLBACK, stages=(COMPILE,), asks=("op", "level")),
    "inference": Fault(Kind.EXCEPTION, stages=(RUN,), places=(DYNAMO,), asks=()),
    "dynamic": Fault(Kind.EXCEPTION, places=(DYNAMO,), asks=("op", "stage")),
    "backward": Fault(Kind.EXCEPTION, places=(BACKWARD,), asks=("stage",)),
}  # fmt: skip

# What an op is called in the graphs that AOTAutograd makes.
_ATEN = {
    FORWARD: {"tanh": "tanh", "softmax": "_softmax", "layer_norm": "native_layer_norm"},
    BACKWARD: {
        "tanh": "tanh_backward",
        "softmax": "_softmax_backward_data",
        "layer_norm": "native_layer_norm_backward",
    },
}


@dataclass(frozen=True)
class Cell:
    """One combination. `place` is whose graph the fault looks at: Dynamo's (in a script that does not train), or one of
    the two that AOTAutograd makes of it (in one that does)."""

    fault: str
    stage: str
    place: str
    dtype: str
    dynamic: bool

    def __str__(self) -> str:
        sizes = "dynamic" if self.dynamic else "static"
        return f"{self.fault}-{self.stage}-{self.place}-{self.dtype}-{sizes}"

    @property
    def facts(self) -> Fault:
        return FAULTS[self.fault]

    @property
    def compares(self) -> bool:
        return self.facts.aspect is not None

    @property
    def options(self) -> dict[str, Any]:
        """What the backend is told."""
        names = _ATEN.get(self.place, {})
        given: dict[str, Any] = dict(self.facts.options)
        if self.dtype == "bfloat16" and "factor" in given:
            given["factor"] = 4.0  # eager itself moves the result by a good part of what half of that does
        wanted = {"op": names.get("tanh", "tanh"), "stage": self.stage, "level": self.place}
        given |= {key: wanted[key] for key in self.facts.asks}
        if self.facts.partner:
            given["with_op"] = names.get(self.facts.partner, self.facts.partner)
        return given

    @property
    def expected_stage(self) -> Stage:
        if self.compares:
            return Stage.COMPARE
        if self.place == BACKWARD:
            return Stage.BACKWARD_COMPILE if self.stage == COMPILE else Stage.BACKWARD_RUN
        return Stage(self.stage)

    @property
    def expected_aspect(self) -> Aspect | None:
        """A wrong gradient is an aspect of its own; NaN is NaN wherever it is."""
        return Aspect.GRADIENT if self.facts.aspect is Aspect.VALUES and self.place == BACKWARD else self.facts.aspect

    @property
    def has_backward_graph(self) -> bool:
        """Whether the failing call is one of a backward graph's; a wrong gradient is seen on Dynamo's."""
        return self.place == BACKWARD and not self.compares

    @property
    def expected_level(self) -> Level:
        """Of the Case that was captured: what fails in a forward graph has failed in Dynamo's call of the backend."""
        return Level.AOT_BACKWARD if self.has_backward_graph else Level.DYNAMO

    @property
    def expected_aten(self) -> tuple[str, ...]:
        """The ops left of a backward graph, in any order. Of a tuple one value is given back."""
        names = [_ATEN[BACKWARD][op.rpartition(".")[2]] for op in self.facts.ops]
        taken = ["operator.getitem"] if "native_layer_norm_backward" in names else []
        return (*(f"torch.ops.aten.{name}.default" for name in names), *taken)


def makes_sense(cell: Cell) -> bool:
    """Whether the fault has this stage and this graph; what looks at symbolic sizes needs dynamic ones."""
    facts = cell.facts
    return cell.stage in facts.stages and cell.place in facts.places and (cell.dynamic or cell.fault != "dynamic")


_PAIRS = tuple(itertools.product(("float32", "bfloat16"), (False, True)))


def all_cells() -> list[Cell]:
    """All combinations that make sense."""
    axes = (FAULTS, (COMPILE, RUN), (DYNAMO, FORWARD, BACKWARD), _PAIRS)
    cells = (Cell(fault, stage, place, *pair) for fault, stage, place, pair in itertools.product(*axes))
    return [cell for cell in cells if makes_sense(cell)]


def cells_of_faults() -> list[Cell]:
    """One cell of each fault: the stages, graphs, dtypes and kinds of sizes take turns."""
    chosen = []
    for start, fault in enumerate(FAULTS):
        mine = [cell for cell in all_cells() if cell.fault == fault]
        where = list(dict.fromkeys((cell.stage, cell.place) for cell in mine))
        pairs = list(dict.fromkeys((cell.dtype, cell.dynamic) for cell in mine))
        chosen.append(Cell(fault, *where[start % len(where)], *pairs[start % len(pairs)]))
    return chosen


def cells_of_kinds() -> list[Cell]:
    """Of these the first of each kind of failure."""
    return list({cell.facts.kind: cell for cell in reversed(cells_of_faults())}.values())


_SCRIPT = """
import torch
import torch.nn.functional as F
import minifier_backends.faulty

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = torch.nn.Linear(8, 16), torch.nn.Linear(16, 6)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x, state):
        h = F.silu(self.into(x))
        gate = torch.sigmoid(h) * 2
        h = torch.cat([h[:, :8], h[:, 8:].cos()], -1) + gate
        h = self.norm(h)
        side = F.softplus(h).sum(-1, keepdim=True)
        h = h * 3 / (side.abs() + 1)
        h = torch.softmax(torch.tanh(h), -1) * 16
        {extra}
        h = torch.where(h > 0, h, h * 0.5)
        h = torch.exp(-h) - gate.mean()
        return F.gelu(self.out(h)), {second}


model = Model().to(torch.{dtype})
x, state = torch.randn(12, 8, dtype=torch.{dtype}), torch.zeros(2, 3, dtype=torch.{dtype})
compiled = torch.compile(model, backend="faulty_{fault}", dynamic={dynamic}, options={options!r})
for step in range({steps}):
    {before}
    with {mode}:
        result = compiled(x, state)[0]
    {after}
"""
_EXTRA = {"mutation": "state.add_(1)"}
_SECOND = {"mutation": "torch.sin(state)", "alias": "state.view(-1)"}


def script(cell: Cell) -> str:
    """A script of some 30 ops that shows the cell's failure."""
    trains = cell.place != DYNAMO
    mode = "torch.enable_grad()" if trains else "torch.no_grad()"
    flaky = cell.fault == "flaky"
    return source_of(_SCRIPT).format(
        extra=_EXTRA.get(cell.fault, "pass"),
        second=_SECOND.get(cell.fault, "torch.sin(state) + 1"),
        dtype=cell.dtype,
        dynamic=cell.dynamic,
        fault=cell.fault,
        options=cell.options,
        steps=40 if flaky else 2 if cell.fault == "on_call" else 1,
        before="torch._dynamo.reset()" if flaky and cell.stage == COMPILE else "pass",
        mode="torch.inference_mode()" if cell.fault == "inference" else mode,
        after="result.float().sum().backward()" if trains else "pass",
    )
