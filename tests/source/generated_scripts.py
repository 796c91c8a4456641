"""Scripts of random models with a fault in the compiled function, which fails in compiled code alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_GENERATOR = 0x20  # inspect.CO_GENERATOR


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: lines of the compiled function, and a test of the calls of marked functions that fail together.

    `needs` are the texts that a repro must have. `most` is the number of statements that a person would keep. `error`
    is the failure that the script shows. The last of these calls raises it. With `is_wrong` its result is wrong, and
    the script's own check raises. With a `backend`, the definition of one, the backend raises.
    """

    name: str
    lines: tuple[str, ...]
    fails: Callable[[list[Call]], bool]
    needs: tuple[str, ...]
    most: int
    error: str
    is_wrong: bool = False
    backend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a marked function in compiled code: its name, arguments, and the code objects below it."""

    name: str
    arguments: tuple[Any, ...]
    codes: tuple[Any, ...]
    has_gradients: bool


# Functions of torch whose calls in compiled code are noted; a call of `DECOY` always fails, in a way of its own.
DECOY = "rad2deg"
MARKED = ("erfcx", "sinc", "heaviside", "roll", "sgn", "xlogy", "exp2", "floor", DECOY)
CHECK = 'assert torch.allclose(result, expected), "compiled and eager differ"'


def _one(name: str) -> Callable[[list[Call]], bool]:
    return lambda calls: any(call.name == name for call in calls)


FAULTS = (
    Fault("op", ("x = torch.special.erfcx(x)",), _one("erfcx"), ("erfcx",), 5, "Refused: erfcx"),
    Fault(
        "pair",
        ("x = torch.sinc(x)", "x = torch.heaviside(x, x)"),
        lambda calls: {"sinc", "heaviside"} <= {call.name for call in calls},
        ("sinc", "heaviside"),
        6,
        "Refused: heaviside",
    ),
    Fault(
        "value",
        ("x = torch.roll(x, 3)",),
        lambda calls: any(call.name == "roll" and call.arguments[1:] == (3,) for call in calls),
        ("roll", "3"),
        5,
        "Refused: roll",
    ),
    Fault(
        "no gradients",
        ("with torch.no_grad():", "    m = torch.sgn(x)"),
        lambda calls: any(call.name == "sgn" and not call.has_gradients for call in calls),
        ("sgn", "no_grad"),
        6,
        "Refused: sgn",
    ),
    Fault(
        "generator",
        ("x = sum(torch.sgn(x) * n for n in range(1, 3))",),
        lambda calls: any(call.name == "sgn" and call.codes[0].co_flags & _GENERATOR for call in calls),
        ("sgn", " for "),
        5,
        "Refused: sgn",
    ),
    Fault(
        "twice",
        ("for n in range(2):", "    x = torch.xlogy(x, x)"),
        lambda calls: sum(call.name == "xlogy" for call in calls) > 1,
        ("xlogy",),
        6,
        "Refused: xlogy",
    ),
    Fault(
        "recursion",
        ("def deeper(t, n):", "    return torch.sgn(t) if n == 0 else deeper(t, n - 1)", "x = deeper(x, 2)"),
        lambda calls: any(call.name == "sgn" and call.codes[0] in call.codes[1:] for call in calls),
        ("sgn", "deeper"),
        7,
        "Refused: sgn",
    ),
    Fault(
        "own check",
        ("x = torch.exp2(x)",),
        _one("exp2"),
        ("exp2", CHECK),
        6,
        "AssertionError: compiled and eager differ",
        is_wrong=True,
    ),
    Fault(
        "own backend",
        ("x = torch.floor(x)",),
        _one("floor"),
        ("floor", "# each call is looked at", "backend=strict"),
        4,
        "ValueError: no floor",
        backend=(
            "def strict(graph, inputs):",
            "    # each call is looked at",
            "    for call in graph.calls:  # in order",
            '        if call.name == "floor":',
            '            raise ValueError("no floor")',
            "    return graph",
        ),
    ),
)


class Script:
    """Draws a script: a model of a few methods, its fault somewhere in them, and a call of the compiled model.

    Some scripts read `sys.argv`, use `random`, or call `DECOY` behind the fault, which fails alike.
    """

    def __init__(self, seed: int, fault: Fault, size: int = 8) -> None:
        self.draw = random.Random(seed)
        self.fault, self.size = fault, size
        self.names = itertools.count(1)
        self.top: list[str] = []
        self.init: list[str] = []
        self.has_arguments, self.has_random, self.has_decoy = (self.draw.random() < 0.25 for _ in range(3))

    @property
    def is_late(self) -> bool:
        """Whether the failure shows only after the compiled call, or at its end."""
        return self.fault.is_wrong or bool(self.fault.backend)

    def text(self) -> str:
        """Return the source."""
        bodies = [self._statements(self.size) for _ in range(self.draw.randint(1, 3))]
        body = bodies[-1] if self.fault.is_wrong else self.draw.choice(bodies)
        place = self.draw.randint(0, len(body))
        body.insert(len(body) if self.fault.is_wrong else place, list(self.fault.lines))  # nothing evens out the result
        if self.has_decoy and not self.is_late:
            body.append([f"x = torch.{DECOY}(x)"])
        methods = [self._method(n, body) for n, body in enumerate(bodies)]
        makers = [self._as_class, self._as_functions]
        definitions, call = self.draw.choice(makers)(methods)
        head = ["import torch", "from torch import nn", ""]
        if self.has_random:
            head = ["import random", *head, "random.seed(3)"]
            body[0].append("x = x * (1 + random.random())")
        if self.has_arguments:
            head = ["import sys", "", 'sys.argv[1:] = ["4"]', "", *head]
        if self.draw.random() < 0.5:
            head = ['"""A model."""', *head]
        return "\n".join([*head, *self.top, *definitions, "", *self._main(call)]) + "\n"

    def _as_class(self, methods: list[list[str]]) -> tuple[list[str], str]:
        base, top = "nn.Module", []
        if self.draw.random() < 0.3:
            top = ["class Base(nn.Module):", "    scale = 2.0", "", "    def extra(self, t):", "        return t + 0"]
            base = "Base"
        lines = [*top, f"class Net({base}):", "    def __init__(self, width=8):", "        super().__init__()"]
        lines += [f"        {line}" for line in ("self.first = nn.Linear(width, width)", *self.init)]
        for number, method in enumerate(methods):
            name = "forward" if number == 0 else f"step{number}"
            lines += ["", *(f"    {line}" for line in [method[0].format(name=name, own="self, "), *method[1:-1]])]
            more = [f"        x = self.step{number + 1}(x)"] if number + 1 < len(methods) else []
            lines += [*more, f"    {method[-1]}"]
        return lines, "Net()"

    def _as_functions(self, methods: list[list[str]]) -> tuple[list[str], str]:
        if any("self." in line for method in methods for line in method):
            return self._as_class(methods)
        lines: list[str] = []
        for number, method in reversed(list(enumerate(methods))):
            name = "model" if number == 0 else f"step{number}"
            more = [f"    x = step{number + 1}(x)"] if number + 1 < len(methods) else []
            lines += [method[0].format(name=name, own=""), *method[1:-1], *more, method[-1], ""]
        return lines, "model"

    def _method(self, number: int, body: list[list[str]]) -> list[str]:
        signature = "def {name}({own}x, width=8):" if number and self.draw.random() < 0.5 else "def {name}({own}x):"
        return [signature, *(f"    {line}" for lines in body for line in lines), "    return x"]

    def _main(self, call: str) -> list[str]:
        backend = "strict" if self.fault.backend else '"eager"'
        lines = ["torch.manual_seed(0)", f"compiled = torch.compile({call}, backend={backend})"]
        if self.has_arguments:
            lines += ["size = int(sys.argv[1])", "data = torch.randn(size, 8)"]
        else:
            lines += self.draw.choice([["data = torch.randn(4, 8)"], ["size = 4", "data = torch.randn(size, 8)"]])
        run = self.draw.choice(
            [
                ["print(compiled(data).sum())"],
                ["for step in range(2):", "    result = compiled(data)", "    print(step, result.mean())"],
                ["out = compiled(data)", "assert out.shape[0] == 4", 'print("shape", tuple(out.shape))'],
                ["try:", "    out = compiled(data)", "finally:", '    print("done")'],
                [
                    "with torch.no_grad():" if self.fault.name != "no gradients" else "if True:",
                    "    out = compiled(data)",
                ],
            ]
        )
        if self.fault.is_wrong:
            lines[1:2] = [f"model_run = {call}", 'compiled = torch.compile(model_run, backend="eager")']
            run = ["expected = model_run(data.clone())", "result = compiled(data.clone())", CHECK]
        if self.has_decoy and self.is_late:
            run = [*run, f'torch.compile(torch.{DECOY}, backend="eager")(data)']
        is_nested = self.draw.random() < 0.3
        definition = [*self.fault.backend, ""] if self.fault.backend else []
        if not is_nested:
            return [*definition, *lines, *run]
        if self.draw.random() < 0.5:
            lines, definition = [*definition, *lines], []
        main = [f"    {line}" if line else "" for line in [*lines, *run]]
        return [*definition, "def main():", *main, "", 'if __name__ == "__main__":', "    main()"]

    def _statements(self, count: int) -> list[list[str]]:
        makers = [self.draw.choice(_STATEMENTS) for _ in range(self.draw.randint(2, count))]
        return [make(self, next(self.names)) for make in makers]


def _plain(*lines: str) -> Callable[[Script, int], list[str]]:
    return lambda script, n: [line.replace("#", str(n)) for line in lines]


def _with_layer(made: str, *lines: str) -> Callable[[Script, int], list[str]]:
    def statement(script: Script, n: int) -> list[str]:
        script.init.append(made.replace("#", str(n)))
        return [line.replace("#", str(n)) for line in lines]

    return statement


def _with_top(top: Sequence[str], *lines: str) -> Callable[[Script, int], list[str]]:
    def statement(script: Script, n: int) -> list[str]:
        for line in top:
            script.top.append(line.replace("#", str(n)))
        return [line.replace("#", str(n)) for line in lines]

    return statement


_STATEMENTS: tuple[Callable[[Script, int], list[str]], ...] = (
    _plain("x = x + 1; x = x * 0.5"),
    _plain("h# = torch.tanh(x)", "x = x + h#"),
    _plain("a#, b# = x.chunk(2, dim=-1)", "x = torch.cat([b#, a#], dim=-1)"),
    _plain("if x.shape[0] > 2:", "    x = x * 2", "else:", "    x = x - 1"),
    _plain("for i# in range(3):", "    if i# == 1:", "        continue", "    x = x + i#"),
    _plain("with torch.no_grad():", "    m# = x.mean()", "x = x - m#"),
    _plain("try:", "    x = x.view(4, 8)", "except RuntimeError as error:", "    raise ValueError(str(error))"),
    _plain("scale# = lambda t, s=2: t * s", "x = scale#(x)"),
    _plain("x = sum([x * k# for k# in (1, 2)])"),
    _plain("state# = {'h': x, 'n': 1}", "x = state#['h'] * state#['n']"),
    _plain("assert x.dim() == 2, f'{x.shape}'"),
    _plain("if (n# := x.shape[-1]) > 4:", "    x = x / n#"),
    _plain("def inner#(t):", "    return t + x.mean()", "", "x = inner#(x)"),
    _plain("x[:, :2]", "x = torch.where(x > 0, x, -x) if x.dim() else x"),
    _plain("match x.dim():", "    case 2:", "        x = x + 1", "    case _:", "        x = x - 1"),
    _with_layer("self.layer# = nn.Linear(8, 8)", "x = self.layer#(x)"),
    _with_layer(
        "self.stack# = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))",
        "for layer# in self.stack#:",
        "    x = layer#(x)",
    ),
    _with_layer("self.bias# = nn.Parameter(torch.zeros(8))", "x = x + self.bias#"),
    _with_top(["LIMIT# = 3"], "x = x.clamp(max=LIMIT#)"),
    _with_top(["def helper#(t, *, by=1.0):", "    t = t * by", "    return t", ""], "x = helper#(x, by=0.5)"),
    _with_top(
        ["def twice#(f):", "    def g(*args, **kwargs):", "        return f(*args, **kwargs) * 2", "    return g", ""],
        "x = twice#(torch.tanh)(x)",
    ),
    _with_top(
        [
            "class Config#:",
            "    rate = 0.5",
            "    def __call__(self, t):",
            "        return t * self.rate",
            "",
            "config# = Config#()",
            "",
        ],
        "x = config#(x)",
    ),
)
