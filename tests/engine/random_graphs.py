"""Random programs of a few ops: views, in-place ops, ops of several results, and dtypes mixed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

# A is a value made before, B another; R, S are the results.
_STATEMENTS = (
    *(f"R = torch.{name}(A)" for name in ("cos", "exp", "tanh", "sigmoid", "relu", "neg", "abs", "square", "floor")),
    *("R = A + B", "R = A * B", "R = torch.maximum(A, B)", "R = A - 2", "R = torch.where(A > 0, A, B)"),
    *("R = A.sum(-1)", "R = A.mean(0)", "R = A.amax(-1, keepdim=True)", "R = torch.softmax(A, -1)"),
    *("R = A.t()", "R = A[0]", "R = A.transpose(0, -1)", "R = A.view(-1)", "R = A.unsqueeze(0)", "R = A.flatten()"),
    *("R = A.float()", "R = A.double()", "R = A.to(torch.bfloat16)", "R = A.long()", "R = A.to(torch.int32)"),
    *("R = A.clone()", "R = A.add_(1)", "A.mul_(2)", "R = torch.relu_(A)", "A[0] = 1", "A += 1", "A.copy_(B)"),
    *("R, S = torch.aminmax(A)", "R, S = torch.chunk(A, 2)", "R, S = A.sort(-1)", "R, S = A.topk(1)"),
    *("R, S = torch.var_mean(A, 0)", "R, S = torch.split(A, [1, A.shape[0] - 1])", "R = A.max(-1)[0]"),
)
_FEW = 7  # statements that a program is made of, so that they come again
_DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32)
_SHAPES = ((4,), (2, 3), (4, 3), (2, 3, 4))


@dataclass(frozen=True)
class RandomProgram:
    """A function of tensors, its source, and the arguments of its call."""

    function: Callable[..., Any]
    source: str
    args: tuple[torch.Tensor, ...]


def random_program(random: Random, statements: int) -> RandomProgram:
    """A program of so many statements that runs in eager; it returns what it does not read, and some of the rest."""
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    args = tuple(
        (torch.randn(random.choice(_SHAPES), generator=generator) * 3).to(random.choice(_DTYPES))
        for _ in range(random.randint(1, 3))
    )
    world: dict[str, Any] = {"torch": torch}
    names = [f"x{i}" for i in range(len(args))]
    world |= {name: value.clone() for name, value in zip(names, args, strict=True)}
    head = f"def program({', '.join(names)}):"
    vocabulary = random.sample(_STATEMENTS, _FEW)
    lines: list[str] = []
    read: set[str] = set()
    for _ in range(50 * statements):
        if len(lines) == statements:
            break
        first, second = (random.choice(names[-5:]) for _ in range(2))
        if random.random() < 0.6 and names[-1] not in read:
            first = names[-1]
        text = random.choice(vocabulary if random.random() < 0.8 else _STATEMENTS)
        made = [f"v{len(lines)}", f"w{len(lines)}"]
        line = _with_names(text, dict(zip("ABRS", (first, second, *made), strict=True)))
        with suppress(Exception):  # of an op that does not take these: another one is drawn
            exec(line, world)
            lines.append(line)
            read |= {name for name in (first, second) if re.search(rf"\b{name}\b", line)}
            names += [name for name in made if name in world]
    results = [name for name in names if name[0] != "x" and (name not in read or random.random() < 0.2)]
    source = "\n    ".join([head, *lines, f"return {', '.join(results or names[-1:])},"])
    exec(source, world)
    return RandomProgram(world["program"], source, args)


def _with_names(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\b[ABRS]\b", lambda letter: names[letter[0]], text)
