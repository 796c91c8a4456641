"""The inputs of a graph, one per placeholder, and the sources of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from minifier.case.values import TensorMeta


@dataclass(frozen=True, slots=True)
class Stored:
    """Values in the Case's tensor file under `key`.

    If `shared`, several inputs are views of one storage, and the key holds that storage as one dimension.
    If `contiguous`, the key holds the elements in row-major order, whatever the input's stride. The input begins at
    the `offset`-th element of what the key holds: compiled code may depend on the alignment. It is a view of the input
    `base`, if that is one of the Case's inputs; the key's values are for Cases without it.
    """

    key: str
    shared: bool = False
    contiguous: bool = False
    offset: int = 0
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """Values of this node in an eager run of the whole graph."""

    node: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """Generated values. `how` is one of: randn, rand, randint, bools, ones, zeros, full, list, no memory.

    The last are zeros that have no memory, as torch makes for gradients and tangents that are known to be zero.

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
    """A tensor argument: with requires_grad a `leaf` or an op's result, an nn.Parameter, made in inference mode.

    `storage` is the number of elements of its storage if the graph may read beyond the tensor, else 0.
    """

    name: str
    meta: TensorMeta
    source: Source
    leaf: bool = True
    parameter: bool = False
    inference: bool = False
    storage: int = 0

    @property
    def whole(self) -> TensorMeta:
        """The storage that this input is a window of, as a tensor."""
        return replace(self.meta, shape=(self.storage,), stride=(1,), offset=0)


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number, string or None; `symbol` names the symbolic size that the number is."""

    name: str
    value: int | float | bool | str | None
    symbol: str | None = None


Input = TensorInput | ScalarInput


def bases(inputs: Iterable[Input]) -> dict[str, TensorInput]:
    """Return, by name, the inputs that are views of another one of these inputs, with that one."""
    by_name = {item.name: item for item in inputs if isinstance(item, TensorInput)}
    of = {name: item.source.base for name, item in by_name.items() if isinstance(item.source, Stored)}
    return {name: by_name[base] for name, base in of.items() if base is not None and base in by_name}
