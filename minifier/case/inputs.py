"""The inputs of a graph: what each placeholder is given, and how to make it."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.case.values import TensorMeta


@dataclass(frozen=True, slots=True)
class Stored:
    """Values kept in the Case's tensor file under `key`.

    `shared` is set where several inputs live in one storage: the key then holds that whole storage, one-
    dimensional, and the input is a view of it by shape, stride and offset. `contiguous` is set where the key holds
    the elements in the order of the dims, whatever stride the input has.
    """

    key: str
    shared: bool = False
    contiguous: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """Values that the node of this name had when the whole graph ran eagerly."""

    node: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values made on the spot. `how` is one of: randn, rand, randint, bools, ones, zeros, full, list.

    `low` and `high` bound rand (a half-open interval) and randint; `low` is the value of full;
    `values` are the elements of list.
    """

    how: str
    low: float | int | None = None
    high: float | int | None = None
    values: tuple[float | int | bool, ...] = ()

    @property
    def spread(self) -> float:
        """Of rand: the width of the interval, without the noise of the subtraction."""
        low, high = self.low or 0.0, 1.0 if self.high is None else self.high
        return float(f"{high - low:.6g}")


@dataclass(frozen=True, slots=True)
class Adapted:
    """Values of another source, which made them as `meta` says: of larger sizes only the first of each dimension are
    taken, dimensions that are gone at their first index, and converted to the dtype of the input."""

    of: Stored | Recorded
    meta: TensorMeta


Source = Stored | Recorded | Drawn | Adapted


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor argument. `leaf` matters with requires_grad; `parameter` is an nn.Parameter; `inference` says
    that it was made under inference mode."""

    name: str
    meta: TensorMeta
    source: Source
    leaf: bool = True
    parameter: bool = False
    inference: bool = False


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number, string or None; `symbol` names the symbolic size it stands for."""

    name: str
    value: int | float | bool | str | None
    symbol: str | None = None


Input = TensorInput | ScalarInput
