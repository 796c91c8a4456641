"""The inputs of a graph, one per placeholder, and the sources of their values."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.case.values import TensorMeta


@dataclass(frozen=True, slots=True)
class Stored:
    """Values in the Case's tensor file under `key`.

    If `shared`, several inputs are views of one storage, and the key holds that storage as one dimension.
    If `contiguous`, the key holds the elements in row-major order, whatever the input's stride. The input begins at
    the `offset`-th element of what the key holds: compiled code may depend on the alignment.
    """

    key: str
    shared: bool = False
    contiguous: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """Values of this node in an eager run of the whole graph."""

    node: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """Generated values. `how` is one of: randn, rand, randint, bools, ones, zeros, full, list.

    `low` and `high` bound rand (a half-open interval) and randint; `low` is the value of full;
    `values` are the elements of list.
    """

    how: str
    low: float | int | None = None
    high: float | int | None = None
    values: tuple[float | int | bool, ...] = ()

    @property
    def spread(self) -> float:
        """Width of rand's interval, without floating-point noise."""
        low, high = self.low or 0.0, 1.0 if self.high is None else self.high
        return float(f"{high - low:.6g}")


@dataclass(frozen=True, slots=True)
class Adapted:
    """Values of another source, described by `meta`, cut to the input's shape and converted to its dtype.

    A smaller dimension keeps its first values, a removed one index 0."""

    of: Stored | Recorded
    meta: TensorMeta


Source = Stored | Recorded | Drawn | Adapted


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor argument: with requires_grad a `leaf` or an op's result, an nn.Parameter, made in inference mode."""

    name: str
    meta: TensorMeta
    source: Source
    leaf: bool = True
    parameter: bool = False
    inference: bool = False


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number, string or None; `symbol` names the symbolic size that the number is."""

    name: str
    value: int | float | bool | str | None
    symbol: str | None = None


Input = TensorInput | ScalarInput
