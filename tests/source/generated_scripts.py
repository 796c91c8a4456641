"""Scripts of random models with a fault in the compiled function, and a lab that runs them in this process.

`FAULTS` fail in compiled code alone. `torch.compile` is replaced by a mark on the calls that it covers, so a run takes
a millisecond instead of a process. `python -m tests.source.generated_scripts 500` reduces as many.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier import search
from minifier.source.missing_names import missing_names
from minifier.source.reduce import ReducedSource, reduce_source
from minifier.source.tree import Tree

_MAX_RUN_SECONDS = 1.0  # of processor time; an edit may make a loop endless
_GENERATOR = 0x20  # inspect.CO_GENERATOR


class Refused(Exception):
    """What the replaced torch.compile raises."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: lines of the compiled function, and a test of the calls of marked functions that fail together.

    `needs` are the texts that a repro must have. `most` is the number of statements that a person would keep.
    """

    name: str
    lines: tuple[str, ...]
    fails: Callable[[list[Call]], bool]
    needs: tuple[str, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a marked function in compiled code: its name, arguments, and the code objects below it."""

    name: str
    arguments: tuple[Any, ...]
    codes: tuple[Any, ...]
    has_gradients: bool


MARKED = ("erfcx", "sinc", "heaviside", "roll", "sgn", "xlogy")


def _one(name: str) -> Callable[[list[Call]], bool]:
    return lambda calls: any(call.name == name for call in calls)


FAULTS = (
    Fault("op", ("x = torch.special.erfcx(x)",), _one("erfcx"), ("erfcx",), 5),
    Fault(
        "pair",
        ("x = torch.sinc(x)", "x = torch.heaviside(x, x)"),
        lambda calls: {"sinc", "heaviside"} <= {call.name for call in calls},
        ("sinc", "heaviside"),
        6,
    ),
    Fault(
        "value",
        ("x = torch.roll(x, 3)",),
        lambda calls: any(call.name == "roll" and call.arguments[1:] == (3,) for call in calls),
        ("roll", "3"),
        5,
    ),
    Fault(
        "no gradients",
        ("with torch.no_grad():", "    m = torch.sgn(x)"),
        lambda calls: any(call.name == "sgn" and not call.has_gradients for call in calls),
        ("sgn", "no_grad"),
        6,
    ),
    Fault(
        "generator",
        ("x = sum(torch.sgn(x) * n for n in range(1, 3))",),
        lambda calls: any(call.name == "sgn" and call.codes[0].co_flags & _GENERATOR for call in calls),
        ("sgn", " for "),
        5,
    ),
    Fault(
        "twice",
        ("for n in range(2):", "    x = torch.xlogy(x, x)"),
        lambda calls: sum(call.name == "xlogy" for call in calls) > 1,
        ("xlogy",),
        6,
    ),
    Fault(
        "recursion",
        ("def deeper(t, n):", "    return torch.sgn(t) if n == 0 else deeper(t, n - 1)", "x = deeper(x, 2)"),
        lambda calls: any(call.name == "sgn" and call.codes[0] in call.codes[1:] for call in calls),
        ("sgn", "deeper"),
        7,
    ),
)


class Script:
    """Draws a script: a model of a few methods, its fault somewhere in them, and a call of the compiled model."""

    def __init__(self, seed: int, fault: Fault, size: int = 8) -> None:
        self.draw = random.Random(seed)
        self.fault, self.size = fault, size
        self.names = itertools.count(1)
        self.top: list[str] = []
        self.init: list[str] = []

    def text(self) -> str:
        """Return the source."""
        bodies = [self._statements(self.size) for _ in range(self.draw.randint(1, 3))]
        body = self.draw.choice(bodies)
        body.insert(self.draw.randint(0, len(body)), list(self.fault.lines))
        methods = [self._method(n, body) for n, body in enumerate(bodies)]
        makers = [self._as_class, self._as_functions]
        definitions, call = self.draw.choice(makers)(methods)
        head = ["import math", "import torch", "from torch import nn", ""]
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
        lines = ["torch.manual_seed(0)", f'compiled = torch.compile({call}, backend="eager")']
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
        if self.draw.random() < 0.3:
            return [
                "def main():",
                *(f"    {line}" for line in [*lines, *run]),
                "",
                'if __name__ == "__main__":',
                "    main()",
            ]
        return [*lines, *run]

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
    _plain("x = torch.relu(x)"),
    _plain("x = x + 1; x = x * 0.5"),
    _plain("h# = torch.tanh(x)", "x = x + h#"),
    _plain("a#, b# = x.chunk(2, dim=-1)", "x = torch.cat([b#, a#], dim=-1)"),
    _plain("first#, *rest# = x.unbind(0)", "x = x + first#"),
    _plain("if x.shape[0] > 2:", "    x = x * 2", "else:", "    x = x - 1"),
    _plain("for i# in range(3):", "    if i# == 1:", "        continue", "    x = x + i#"),
    _plain("n# = 2", "while n#:", "    n# -= 1", "    x = x + n#"),
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
    _plain("total#: float = math.sqrt(x.shape[0])", "x = x * total#"),
    _plain("x = x.transpose(0, 1).contiguous().transpose(0, 1)"),
    _plain("x = torch.stack((x, x), dim=0)[0]", "del_# = x", "del del_#"),
    _plain("keys# = dict(dim=-1, keepdim=True)", "x = x - x.mean(**keys#)"),
    _with_layer("self.layer# = nn.Linear(8, 8)", "x = self.layer#(x)"),
    _with_layer("self.norm# = nn.LayerNorm(8)", "x = self.norm#(x) + x"),
    _with_layer(
        "self.stack# = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))",
        "for layer# in self.stack#:",
        "    x = layer#(x)",
    ),
    _with_layer("self.seq# = nn.Sequential(nn.Linear(8, 8), nn.GELU())", "x = self.seq#(x)"),
    _with_layer("self.bias# = nn.Parameter(torch.zeros(8))", "x = x + self.bias#"),
    _with_top(["LIMIT# = 3"], "x = x.clamp(max=LIMIT#)"),
    _with_top(["def helper#(t, *, by=1.0):", "    t = t * by", "    return t", ""], "x = helper#(x, by=0.5)"),
    _with_top(
        ["def twice#(f):", "    def g(*args, **kwargs):", "        return f(*args, **kwargs) * 2", "    return g", ""],
        "x = twice#(torch.tanh)(x)",
    ),
    _with_top(["@staticmethod", "def plain#(t):", "    return t", ""], "x = plain#.__func__(x)"),
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


class InProcessLab:
    """Runs source texts in this process, as `SourceLab` does in children, and counts them."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.whole: tuple[str, ...] = ()
        self.workers, self.total, self.phase = 1, 0, "check"
        self._fails: dict[str, bool] = {}

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether the fault shows in compiled code, and the text passes in eager mode."""
        for text in sources:
            if text not in self._fails:
                self._fails[text] = self._shows(text)
        return [self._fails[text] for text in sources]

    def _shows(self, text: str) -> bool:
        try:
            if missing_names(text):
                return False
        except (SyntaxError, ValueError):
            return False
        self.total += 1
        return outcome(text, self.fault) == "Refused" and outcome(text, None) == ""


def outcome(text: str, fault: Fault | None) -> str:
    """Run the script; return the name of the exception, or "". Without a fault torch.compile does nothing."""
    calls: list[Call] = []
    with _patched(calls, fault), contextlib.redirect_stdout(io.StringIO()), _limited():
        try:
            exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
        except BaseException as error:
            return type(error).__name__
    return ""


@contextlib.contextmanager
def _patched(calls: list[Call], fault: Fault | None) -> Iterator[None]:
    """Replace torch.compile and the marked functions."""
    depth = [0]

    def compile_(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def compiled(*args: Any, **kwargs: Any) -> Any:
            if not depth[0]:
                calls.clear()
            depth[0] += 1
            try:
                return model(*args, **kwargs)
            finally:
                depth[0] -= 1

        return compiled

    def marked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if depth[0] and fault is not None:
                codes, frame = [], sys._getframe(1)
                while frame is not None and frame.f_code.co_filename == "<script>":
                    codes.append(frame.f_code)
                    frame = frame.f_back  # type: ignore[assignment]
                calls.append(Call(name, args, tuple(codes) or (call.__code__,), torch.is_grad_enabled()))
                if fault.fails(calls):
                    raise Refused(name)
            return result

        return call

    places = [(torch.special if name == "erfcx" else torch, name) for name in MARKED]
    saved = [(place, name, getattr(place, name)) for place, name in [*places, (torch, "compile")]]
    try:
        for place, name in places:
            setattr(place, name, marked(name, getattr(place, name)))
        torch.compile = compile_  # type: ignore[assignment]
        with torch.enable_grad():
            yield
    finally:
        for place, name, value in saved:
            setattr(place, name, value)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in the block once it has computed too long."""

    def raise_(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, raise_)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MAX_RUN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def reduced(text: str, fault: Fault) -> tuple[ReducedSource, InProcessLab]:
    """Reduce a failing script in this process."""
    lab = InProcessLab(fault)
    return reduce_source(lab, text, (), search.Budget()), lab  # type: ignore[arg-type]


def fewest_statements(text: str, fault: Fault) -> int:
    """Return the fewest statements of the script that show the fault, by trying all their sets in order of size."""
    tree, lab = Tree(text), InProcessLab(fault)
    numbers = range(len(tree.statements))
    sets = (chosen for count in numbers for chosen in itertools.combinations(numbers, count))
    return next((len(chosen) for chosen in sets if lab.holds([tree.code(chosen)])[0]), len(numbers))


def main(count: int, first: int = 0) -> None:
    """Reduce so many scripts; print one line for each, and the errors."""
    errors = large = 0
    for seed in range(first, first + count):
        fault = FAULTS[seed % len(FAULTS)]
        text = Script(seed, fault).text()
        assert outcome(text, fault) == "Refused" and not outcome(text, None), (seed, outcome(text, None), text)
        began = time.process_time()
        try:
            result, lab = reduced(text, fault)
        except Exception:
            errors += 1
            print(seed, fault.name, "ERROR", traceback.format_exc(), flush=True)
            continue
        is_large = result.statements > fault.most or not all(need in result.source for need in fault.needs)
        large += is_large
        before, seconds = len(Tree(text).statements), time.process_time() - began
        print(f"{seed} {fault.name}: {before} -> {result.statements} statements, {lab.total} probes, {seconds:.1f} s")
        if is_large:
            print(result.source, flush=True)
    print(f"{count} scripts, {errors} errors, {large} larger than a person's")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
