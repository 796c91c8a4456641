"""Backends and options in every form that a package gives them, none of which registers itself. They lower nothing."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any

import torch


def make(level: int = 1, *, names: Sequence[str] = ()) -> Callable[..., Any]:
    """A factory: what it makes holds its arguments."""

    def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError(level, names)

    return compiler


class Compiler:
    """One whose instances keep their arguments."""

    def __init__(self, level: int, dtype: torch.dtype = torch.float32) -> None:
        self.level, self._dtype = level, dtype
        self.graphs: list[Any] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError

    def lower(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """The same, as a method."""
        return self(gm, inputs)


@dataclasses.dataclass(frozen=True)
class Rules:
    """A frozen record that is called."""

    level: int
    inner: tuple[Any, ...] = ()

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise NotImplementedError


class Mode(enum.Enum):
    """For options."""

    SAFE = "safe"
    FAST = "fast"


@dataclasses.dataclass
class Config:
    """For options."""

    mode: Mode = Mode.SAFE
    depth: int = 2


class Session:
    """One that nothing but its own word can write down: it says so."""

    def __init__(self, key: str) -> None:
        self._handle = {"opened": key}

    def __minify__(self) -> tuple[list[str], str]:
        return ["from oddlib.authored import open_session"], f"open_session({self._handle['opened']!r})"


def open_session(key: str) -> Session:
    """The way to have one."""
    return Session(key)
