"""Backends in every form that a package gives them, none of which registers itself."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import torch


class NoRule(RuntimeError):
    """What all of them raise at a tanh."""


def refuse(gm: torch.fx.GraphModule, because: object) -> Callable[..., Any]:
    """Raises NoRule where the graph has a tanh."""
    if any("tanh" in str(node.target) + getattr(node.target, "__name__", "") for node in gm.graph.nodes):
        raise NoRule(f"tanh has no rule: {because}")
    return gm.forward


def make(level: int = 1, *, names: Sequence[str] = ()) -> Callable[..., Any]:
    """A factory: what it makes holds its arguments."""

    def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return refuse(gm, (level, list(names)))

    return compiler


class Compiler:
    """One whose instances keep their arguments."""

    def __init__(self, level: int, dtype: torch.dtype = torch.float32) -> None:
        self.level, self._dtype = level, dtype
        self.graphs: list[Any] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return refuse(gm, (self.level, self._dtype))

    def lower(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """The same, as a method."""
        return self(gm, inputs)


@dataclasses.dataclass(frozen=True)
class Rules:
    """A frozen record that is called."""

    level: int
    inner: tuple[Compiler, ...] = ()

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return refuse(gm, self.level)


class Mode(enum.Enum):
    """For options."""

    SAFE = "safe"
    FAST = "fast"


@dataclasses.dataclass
class Config:
    """For options."""

    mode: Mode = Mode.SAFE
    depth: int = 2


def configured(gm: torch.fx.GraphModule, inputs: list[Any], *, options: dict[str, Any]) -> Callable[..., Any]:
    """Fails only with a config that asks for speed."""
    config = options["config"]
    return refuse(gm, config.depth) if config.mode is Mode.FAST else gm.forward


class Session:
    """One that nothing but its own word can write down: it says so."""

    def __init__(self, key: str) -> None:
        self._handle = {"opened": key}

    def __minify__(self) -> tuple[list[str], str]:
        return ["from oddlib.authored import open_session"], f"open_session({self._handle['opened']!r})"

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return refuse(gm, self._handle["opened"])


def open_session(key: str) -> Session:
    """The way to have one."""
    return Session(key)
