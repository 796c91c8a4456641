"""Write the calls of the backend ahead of the failing call, and the functions that they compile."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection
from dataclasses import dataclass, field

from minifier.case import CallAhead, Case, ScalarInput
from minifier.case.call_ahead import shares_function
from minifier.case.literals import literal
from minifier.emit.graph_source import function_source
from minifier.emit.input_source import tensor_source
from minifier.emit.naming import Names
from minifier.errors import NoRepro


@dataclass(frozen=True, slots=True)
class AheadSource:
    """Source of the calls ahead of the failing call, and the arguments of every torch.compile in the script.

    `bindings` are statements that create a backend for several calls of torch.compile. `functions` are definitions.
    `early` and `late` are statements. The `late` statements follow the function's first calls.
    """

    backend: str
    arguments: tuple[str, ...]
    bindings: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass
class _AheadWriter:
    case: Case
    backend: str
    arguments: tuple[str, ...]
    reserved: Collection[str]
    functions: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)

    def statement(self, call: CallAhead) -> str:
        inputs = [
            literal(item.value) if isinstance(item, ScalarInput) else tensor_source(item, self.case.state.default_dtype)
            for item in call.inputs
        ]
        function = "compiled" if shares_function(self.case, call) else self._compiled(call)
        text = f"{function}({', '.join(inputs)})"
        if call.backward:
            (outputs,) = call.graph.output.args
            several = isinstance(outputs, (tuple, list)) and len(outputs) > 1
            backward = "torch.autograd.backward([y.sum() for y in {} if y.requires_grad])"
            text = backward.format(text) if several else f"{text}.sum().backward()"
        return text if call.calls == 1 else f"for _ in range({call.calls}):\n    {text}"

    def _compiled(self, call: CallAhead) -> str:
        name = unused("earlier", self.reserved, len(self.functions))
        names, earlier = Names(self.reserved), self.case.of(call)
        inputs = {node.name: names.for_input(earlier, node.name) for node in call.graph.placeholders}
        source = function_source(call.graph, names, inputs, _refuse_module)
        body = "\n".join(f"    {line}" for line in source.body)
        self.functions += [*source.before, f"def {name}({', '.join(source.parameters)}):\n{body}"]
        self.imports += source.imports
        return f"torch.compile({', '.join((name, f'backend={self.backend}', *self.arguments))})"


def _refuse_module(target: str) -> str:
    raise NoRepro(f"a graph ahead of the failing one calls the module {target}")


def unused(name: str, reserved: Collection[str], number: int = 0) -> str:
    """Return the unreserved name at index `number` in the series name, name2, name3, ..."""
    names = itertools.chain((name,), (f"{name}{n}" for n in itertools.count(2)))
    return next(itertools.islice((each for each in names if each not in reserved), number, None))


def ahead_source(case: Case, backend: str, arguments: tuple[str, ...], reserved: Collection[str]) -> AheadSource:
    """Return the source of the Case's calls ahead.

    `backend` is the backend's expression, and `arguments` are further arguments of torch.compile. `reserved` are the
    names of the script. Raises NoRepro if a call cannot be written.
    """
    if not case.ahead:
        return AheadSource(backend, arguments)
    if any(shares_function(case, call) for call in case.ahead):  # each size is compiled anew
        arguments = (*(text for text in arguments if not text.startswith("dynamic=")), "dynamic=False")
    name = unused("backend", reserved) if _makes_object(backend) else backend
    writer = _AheadWriter(case, name, arguments, reserved)
    early, late = tuple(map(writer.statement, case.early)), tuple(map(writer.statement, case.late))
    if not writer.functions:  # there is one torch.compile
        name = backend
    bindings = (f"{name} = {backend}",) if name != backend else ()
    return AheadSource(name, arguments, bindings, tuple(writer.functions), early, late, tuple(writer.imports))


def _makes_object(expression: str) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(expression, mode="eval")))
