"""The options of the faulty backends: what there is, what each means, and how a wrong one is refused."""

import dataclasses
import enum
from collections.abc import Mapping


class OptionError(ValueError):
    """An option that the backend does not have, or a value that the option cannot take."""


class Stage(enum.Enum):
    """When a fault strikes: as the graph is compiled, or as the compiled function reaches the op."""

    COMPILE = "compile"
    RUN = "run"


class Level(enum.Enum):
    """Which graph a fault looks at: Dynamo's own, or the forward or backward graph of AOTAutograd."""

    DYNAMO = "dynamo"
    FORWARD = "forward"
    BACKWARD = "backward"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """All options there are; each backend takes some of them, and has defaults of its own."""

    op: str = "tanh"
    """The op that the fault needs."""
    with_op: str = "softmax"
    """The second op, for a fault that needs two."""
    stage: Stage = Stage.COMPILE
    level: Level = Level.DYNAMO
    factor: float = 1.02
    """By what a wrong value is multiplied."""
    probability: float = 0.5
    """How likely a flaky fault is, at each compilation or each call."""
    call: int = 2
    """Which call of a compiled graph fails, counted from 1."""
    limit_mib: int = 512
    """How many MiB are taken before MemoryError is raised."""
    seconds: float = 0.0
    """How long a hang lasts; 0 is for ever."""
    code: int = 3
    """The exit code."""


def read_options(
    backend: str, options: Mapping[str, object] | None, takes: tuple[str, ...], defaults: Settings
) -> Settings:
    """`defaults` with `options` applied. Raises OptionError, which names the backend and what it takes."""
    given: dict[str, object] = {}
    for name, value in (options or {}).items():
        if name not in takes:
            raise OptionError(f"{backend} has no option {name!r}; it takes {', '.join(takes)}")
        given[name] = _converted(backend, name, value, getattr(defaults, name))
    settings: Settings = dataclasses.replace(defaults, **given)  # type: ignore[arg-type]
    if not 0 <= settings.probability <= 1:
        raise OptionError(f"{backend}: probability must be between 0 and 1, not {settings.probability}")
    return settings


def _converted(backend: str, name: str, value: object, default: object) -> object:
    """The value as the type of the default; an int will do for a float, a bool for nothing else."""
    if isinstance(default, enum.Enum):
        kind = type(default)
        choices = [choice.value for choice in kind]
        if value not in choices:
            raise OptionError(f"{backend}: {name} must be one of {', '.join(choices)}, not {value!r}")
        return kind(value)
    wanted = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise OptionError(f"{backend}: {name} must be of type {type(default).__name__}, not {value!r}")
    return value
