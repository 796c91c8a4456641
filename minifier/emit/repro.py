"""From a Case to the text of its repro, and the files that go beside it."""

from __future__ import annotations

import difflib
import math
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from minifier.case import Case, Graph, Input, Level, Node, Stored, Symbolic, TensorInput, TensorMeta
from minifier.case.store import copy_atomically, write_atomically
from minifier.case.switches import contexts
from minifier.case.values import contiguous_stride, is_permuted
from minifier.emit import state_source
from minifier.emit.definitions import marked, taken_apart
from minifier.emit.flex import with_public_flex
from minifier.emit.forms import Form, Template, Variant, forms_for, is_worth_trying, templates_for
from minifier.emit.graph_source import function_source
from minifier.emit.input_source import TENSOR_FILE, input_lines
from minifier.emit.module_source import constructor
from minifier.emit.naming import OF_TEMPLATES, Names
from minifier.emit.predicate_source import defined_names
from minifier.emit.symbolic_source import marks, other_inputs, without_symbols
from minifier.emit.template import Filling, fill
from minifier.emit.template_texts import special
from minifier.emit.wrapping_statements import Surroundings
from minifier.failure import Kind
from minifier.slicing import definitions_left, imported_tops, names_bound

__all__ = ["Form", "Repro", "Template", "Variant", "forms_for", "is_worth_trying", "templates_for", "write_repro"]

_MISSED = 0.001  # how often the script of a flaky failure may end without having shown it
_MOST_ATTEMPTS = 1000
_GUARD, _LEAST_GUARD = 4, 2  # GiB that a script may take which takes all: ordinarily, and at least, for torch itself
_LEAST_PATIENCE = 20  # seconds; a fresh interpreter takes some to compile anything at all


@dataclass(frozen=True, slots=True)
class Repro:
    """A script and the form it has: none if it is what is left of the user's. `tensors` is the file of values to be put
    beside it, if it reads one."""

    text: str
    template: Template | None
    tensors: Path | None = None
    variant: Variant = field(default_factory=Variant)

    def write(self, folder: Path) -> Path:
        """Writes repro.py, and the values it reads, into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "repro.py"
        write_atomically(path, self.text)
        if self.tensors is not None:
            copy_atomically(self.tensors, folder / TENSOR_FILE)
        return path


def _lifted(case: Case) -> Case:
    """Tensors that the graph holds as attributes become inputs: a function has nothing else to hold them."""
    nodes: list[Node] = []
    inputs: list[Input] = []
    known = {item.name: item for item in case.inputs}
    for node in case.graph.nodes:
        if node.op == "get_attr" and node.target in case.graph.attributes:
            assert isinstance(node.value, TensorMeta)
            stored = Stored(case.graph.attributes[node.target], contiguous=True)
            shape, stride = node.value.shape, node.value.stride
            stride = stride if is_permuted(shape, stride) else contiguous_stride(shape)
            meta = replace(node.value, requires_grad=False, stride=stride, offset=0, storage=None)
            inputs.append(TensorInput(node.name, meta, stored))
            nodes.append(replace(node, op="placeholder", target=node.name))
            continue
        if node.op == "placeholder":
            inputs.append(known[node.name])
        nodes.append(node)
    return replace(case, graph=Graph(tuple(nodes), {}, case.graph.modules), inputs=tuple(inputs))


def _said(case: Case, names: Mapping[str, str]) -> str:
    """The failure in a line, with inputs called as they are in the script."""
    line = case.failure.line
    for difference in case.failure.differences[:1]:
        before, _, node = difference.where.removesuffix(" after the call").rpartition(" ")
        if before in ("input", "gradient of") and node in names:
            line = line.replace(f"{before} {node}", f"{before} {names[node]}")
    return line


def versions(*backend: str) -> str:
    """A line with the versions that a repro was made with; `backend` is its backend's, if there is one to tell."""
    import torch

    python, system = f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"
    return ", ".join([f"torch {torch.__version__}", *backend, python, system])


def _footer(case: Case, names: Mapping[str, str], variables: Collection[str]) -> tuple[str, ...]:
    backend = case.backend
    own = [f"{backend.distribution} {backend.version}"] if backend.distribution not in (None, "torch") else []
    lines = [_said(case, names), versions(*own)]
    if case.needs:
        lines.append(f"It takes {' and '.join(case.needs)}.")
    if case.rate < 1:
        lines.append(f"Shows in about {_of_ten(case.rate)} attempts.")
    if case.folders:
        lines.append(
            f"Needs the folder with {', '.join(_own_modules(case))}, beside the failing script, on PYTHONPATH."
        )
    if variables:
        lines.append(f"Needs {', '.join(variables)} in its environment, as where this was made.")
    return tuple(lines)


def _of_ten(rate: float) -> str:
    """A rate in words: 3 of 10; below that, in the smallest round number of attempts that shows one."""
    for attempts in (10, 100, 1000):
        if round(rate * attempts) >= 1:
            return f"{min(round(rate * attempts), attempts - 1)} of {attempts}"
    return "1 of 1000"


def _operator_imports(case: Case) -> tuple[str, ...]:
    """Imports that register custom operators, if any are left in the graph."""
    return case.script.imports if any(node.target.startswith("torch.ops.") for node in case.graph.ops) else ()


def _own_modules(case: Case) -> list[str]:
    """Top-level names that are found only in the script's own folders."""
    lines = [line.split()[1] for line in (*case.backend.imports, *_operator_imports(case))]
    settings = [module for module, _, _ in case.state.config]
    paths = [*lines, *settings, *(node.target.partition(":")[0] for node in case.graph.ops if ":" in node.target)]
    tops = sorted({path.partition(".")[0] for path in paths} | imported_tops(definitions_left(case)))
    places = [Path(folder) for folder in case.folders]
    return [top for top in tops if any((p / top).exists() or (p / f"{top}.py").exists() for p in places)]


def _attempts(rate: float) -> int:
    """How often to try so that a failure of this rate shows but for one time in a thousand."""
    if rate >= 1:
        return 1
    return min(_MOST_ATTEMPTS, math.ceil(math.log(_MISSED) / math.log1p(-max(rate, 1e-6))))


def guard_seconds(case: Case) -> int:
    """After how many seconds the script of a hang ends itself; 0 for a failure that is none."""
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        return 0
    return max(_LEAST_PATIENCE, math.ceil(case.patience))


def guard_gibibytes(case: Case, memory: int | None = None) -> int:
    """At how many GiB the script of a Case that takes all memory ends itself; 0 for any other. `memory` is how many
    bytes such a script may take where it is verified."""
    on_device = case.failure.type.endswith("OutOfMemoryError")  # no limit of a process's own memory ends that
    if case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY or on_device:
        return 0
    most = _GUARD if memory is None else max(_LEAST_GUARD, min(_GUARD, math.ceil(memory / 2**30)))
    return most + math.floor(2 * _bytes(case) / 2**30)


def _bytes(case: Case) -> int:
    """Of all tensors that the script makes for the call."""
    import torch

    metas = [item.meta for item in case.inputs if isinstance(item, TensorInput)]
    return sum(meta.elements * getattr(torch, meta.dtype).itemsize for meta in metas)


def _surroundings(
    case: Case, template: Template, variant: Variant, names: dict[str, str], memory: int | None
) -> Surroundings:
    attempts, calls = _attempts(case.rate), case.calls
    if template is Template.CALL_REPEATEDLY and calls == 1:  # flaky at run time
        attempts, calls = 1, attempts
    compiles = template is not Template.CALL_BACKEND
    warm_up = other_inputs(case, names) if variant.symbolic is Symbolic.AUTOMATIC and compiles else ()
    guards = guard_seconds(case), guard_gibibytes(case, memory)
    found = case.failure.fingerprint
    tells_end = (found.kind, found.message) == (Kind.EXIT, "exit status 0")
    return Surroundings(calls, warm_up, attempts, variant.recompile, *guards, tells_end)


def _names(case: Case, of_script: Collection[str]) -> Names:
    """Names for values, none of them one that the repro imports or defines otherwise."""
    called = [node.target.partition(":")[2].partition(".")[0] for node in case.graph.ops if ":" in node.target]
    packages = (
        node.target.partition(".")[0].partition(":")[0] for node in case.graph.ops if node.op == "call_function"
    )
    lines = (*case.backend.imports, *state_source.option_imports(case.backend))
    imported = (line.split()[-1].partition(".")[0] for line in lines)
    return Names({*of_script, *called, *packages, *imported, *defined_names(case.measure.predicate)})


def write_repro(
    case: Case,
    template: Template,
    variant: Variant | None = None,
    memory: int | None = None,
    variables: Collection[str] = (),
) -> Repro:
    """The script in this form, by default as plain as can be; raises NoRepro where the Case has something that
    no script can hold yet. `memory` is how many bytes it may take where it is verified; `variables` are those of the
    environment that it needs and must not tell."""
    variant = variant or Variant(symbolic=case.symbolic)
    case = with_public_flex(without_symbols(_lifted(case)))
    definitions = definitions_left(case)
    of_script = names_bound(definitions)
    names = _names(case, of_script)
    inputs = {node.name: names.for_input(case, node.name) for node in case.graph.placeholders}
    modules = {
        target: f"module{i or ''}"
        for i, target in enumerate(case.graph.modules)
        if not case.graph.modules[target].graph
    }
    source = function_source(case.graph, names, inputs, modules.__getitem__, plain_aten=case.level is not Level.DYNAMO)
    more = special(case, template, variant, inputs, names)
    input_imports, statements, stored = input_lines(case, inputs, seeded=more.draws)
    if variant.symbolic is Symbolic.MARKED:
        statements += marks(case, inputs)
    config_imports, settings = state_source.settings(case.state)
    built = [f"{name} = {constructor(target, case.graph.modules[target])}" for target, name in modules.items()]
    logging = ("logging.basicConfig(level=logging.INFO)",) if variant.logging else ()
    text = fill(
        template.value,
        Filling(
            imports=(
                *case.backend.imports,
                *state_source.option_imports(case.backend),
                *_operator_imports(case),
                *config_imports,
                *input_imports,
                *source.imports,
                *more.imports,
                *(["import logging"] if logging else ()),
            ),
            environment=state_source.environment(case.state) if variant.environment else (),
            settings=(*logging, *settings, *built),
            before=tuple(source.before),
            parameters=tuple(source.parameters),
            body=tuple(source.body),
            inputs=(*statements, *more.inputs),
            arguments=tuple(source.parameters) if more.arguments is None else more.arguments,
            backend=marked(case.backend.expression, of_script),
            backend_arguments=state_source.backend_arguments(case, template, variant, of_script),
            contexts=contexts(case.state),
            footer=_footer(case, inputs, variables),
            replacements=more.replacements,
            definitions=more.definitions,
            surroundings=_surroundings(case, template, variant, inputs, memory),
            of_script=taken_apart(definitions),
            names_of_script=frozenset(of_script & OF_TEMPLATES - {"torch", "faulthandler", "resource"}),
        ),
    )
    return Repro(text, template, case.tensors if stored else None, variant)


def difference(text: str, other: str) -> str:
    """The lines in which the other script is not as this one, as a unified diff; comments at their ends left out."""
    before, after = (_without_footer(each) for each in (text, other))
    lines = difflib.unified_diff(before, after, "the repro", "what passes", lineterm="", n=1)
    return "\n".join(lines)


def _without_footer(text: str) -> list[str]:
    lines = text.rstrip().splitlines()
    while lines and (not lines[-1] or lines[-1].startswith("#")):
        lines.pop()
    return lines
