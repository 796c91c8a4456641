"""Build the text of a Case's repro, and write the script with its tensor file."""

from __future__ import annotations

import inspect
import keyword
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minifier.capturing.slicing import definitions_left, names_bound
from minifier.data.case import Case, Level, State, Symbolic, TensorInput
from minifier.data.case.calls import as_function, attributes_as_inputs
from minifier.data.case.graph import Module
from minifier.data.case.inputs import drawn_storages
from minifier.data.case.literals import imports_of, imports_of_config, literal, script_names, setting_statement
from minifier.data.case.store import copy_atomically, write_atomically
from minifier.data.case.switches import contexts, statements
from minifier.data.failure import Kind
from minifier.errors import NoRepro
from minifier.repro.emit.earlier_source import EarlierSource, earlier_source
from minifier.repro.emit.files_beside import VariablesSource, files_read, said_of_files, variables_source
from minifier.repro.emit.footer import footer, operator_imports
from minifier.repro.emit.forms import Form, Template, Variant, forms_for, is_worth_trying, templates_for
from minifier.repro.emit.graph_source import FunctionSource, function_source, with_public_flex
from minifier.repro.emit.input_source import TENSOR_FILE, input_lines, marks
from minifier.repro.emit.naming import TEMPLATE_NAMES, Names
from minifier.repro.emit.script_text import defined_names, mark_names, split_imports
from minifier.repro.emit.template import Filling, Wrapping, fill, template_changes
from minifier.torch_side.fx.arguments import resolve

__all__ = ["Form", "Repro", "Template", "Variant", "forms_for", "is_worth_trying", "templates_for", "write_repro"]

_MISS_PROBABILITY = 0.001  # chance that the script of a flaky failure ends without showing it
_MAX_ATTEMPTS = 1000
_MEMORY_LIMIT_GIB, _MIN_MEMORY_LIMIT_GIB = 4, 2  # for a script that exhausts memory; torch itself needs the minimum
_MIN_TIMEOUT_SECONDS = 20  # a new interpreter needs several seconds to compile anything


@dataclass(frozen=True, slots=True)
class Repro:
    """A script and its form. `template` is None for a reduced user script; `tensors` is the file of stored values.

    `names` maps the graph's nodes to variables of the repro's function. `files` are further files that the script reads
    from its own folder, by their names there. `given` are variables that the script needs in its environment.
    """

    text: str
    template: Template | None
    tensors: Path | None = None
    variant: Variant = field(default_factory=Variant)
    names: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the files next to the script, which hold the user's own data."""
        return (*((TENSOR_FILE,) if self.tensors is not None else ()), *self.files)

    @property
    def nodes(self) -> dict[str, str]:
        """The node behind each variable."""
        return {variable: node for node, variable in self.names.items()}

    @property
    def hides_stage(self) -> bool:
        """Whether the end of the script does not show in which stage it failed."""
        return self.template is None or self.template.hides_stage

    @property
    def form(self) -> Form:
        """The form of a script that was made from a template."""
        assert self.template is not None, "the script is the user's"
        return self.template, self.variant

    def write(self, folder: Path) -> Path:
        """Write repro.py and the files that it reads into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "repro.py"
        write_atomically(path, self.text)
        if self.tensors is not None:
            copy_atomically(self.tensors, folder / TENSOR_FILE)
        for name, source in self.files.items():
            copy_atomically(source, folder / name)
        return path


def _logging(line: str) -> tuple[str, ...]:
    """Return the statements with which a `LEVEL logger: message` line appears on stderr."""
    level, _, rest = line.partition(" ")
    if level != "DEBUG":
        return ("logging.basicConfig(level=logging.INFO)",)
    return ("logging.basicConfig()", f"logging.getLogger({literal(rest.partition(':')[0])}).setLevel(logging.DEBUG)")


def _constructor(name: str, module: Module) -> str:
    """Return a constructor call like `torch.nn.Linear(4, 8, bias=False)`.

    Arguments come from the module's attributes of the same names. Raises NoRepro if a required argument has none.
    """
    kind: type = resolve(module.type)
    arguments = []
    for parameter in inspect.signature(kind).parameters.values():
        key = parameter.name
        if key in ("bias", "affine", "elementwise_affine"):
            value = "bias" in module.parameters or ("weight" in module.parameters and key != "bias")
        elif key in module.plain:
            value = module.plain[key]
        elif parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        else:
            raise NoRepro(f"the graph calls the module {name}, a {module.type}, whose constructor cannot be written")
        if parameter.default is parameter.empty:
            arguments.append(literal(value))
        elif value != parameter.default:
            arguments.append(f"{key}={literal(value)}")
    path = module.type.replace(":", ".")
    if getattr(resolve("torch.nn"), str(kind.__name__), None) is kind:
        path = f"torch.nn.{kind.__name__}"
    return f"{path}({', '.join(arguments)}){'' if module.training else '.eval()'}"


def _attempts(rate: float) -> int:
    """Return the number of attempts after which a failure of this rate is missed with _MISS_PROBABILITY."""
    if rate >= 1:
        return 1
    return min(_MAX_ATTEMPTS, math.ceil(math.log(_MISS_PROBABILITY) / math.log1p(-max(rate, 1e-6))))


def guard_seconds(case: Case) -> int:
    """Return the time limit of a hanging script in seconds; 0 for any other failure."""
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        return 0
    return max(_MIN_TIMEOUT_SECONDS, math.ceil(case.patience))


def guard_gibibytes(case: Case, memory: int | None = None) -> int:
    """Return the memory limit in GiB of a script that exhausts memory; 0 for any other failure.

    `memory` is the number of bytes that the script may use during verification.
    """
    on_device = case.failure.type.endswith("OutOfMemoryError")  # a process limit does not cover device memory
    if case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY or on_device:
        return 0
    limit = _MEMORY_LIMIT_GIB
    if memory is not None:
        limit = max(_MIN_MEMORY_LIMIT_GIB, min(limit, math.ceil(memory / 2**30)))
    return limit + math.floor(2 * _input_bytes(case) / 2**30)


def _input_bytes(case: Case) -> int:
    import torch

    metas = [item.meta for item in case.inputs if isinstance(item, TensorInput)]
    return sum(meta.elements * getattr(torch, meta.dtype).itemsize for meta in metas)


def _wrapping(case: Case, template: Template, variant: Variant, memory: int | None, earlier: EarlierSource) -> Wrapping:
    attempts, calls = _attempts(case.rate), earlier.in_a_row
    if template is Template.CALL_REPEATEDLY and calls == 1:  # flaky at run time
        attempts, calls = 1, attempts
    limits = guard_seconds(case), guard_gibibytes(case, memory)
    fingerprint = case.failure.fingerprint
    waits = case.failure.type == "torch.AcceleratorError" and not fingerprint.stage.compiles
    return Wrapping(earlier.statements, calls, attempts, variant.recompile, *limits, waits, fingerprint.exits_with_0)


def _names(case: Case, script_names: Collection[str]) -> Names:
    """Return a name generator that avoids all names that the repro imports or defines."""
    functions = [node.target.partition(":")[2].partition(".")[0] for node in case.graph.ops if ":" in node.target]
    packages = [re.split("[.:]", node.target)[0] for node in case.graph.ops if node.op == "call_function"]
    lines = (*case.backend.ahead, *case.backend.imports, *imports_of(case.backend.options))
    imported = defined_names("\n".join(lines))
    return Names({*script_names, *functions, *packages, *imported, *defined_names(case.measure.predicate)})


def write_repro(
    case: Case,
    template: Template,
    variant: Variant | None = None,
    memory: int | None = None,
) -> Repro:
    """Return the script in this form, by default without optional additions.

    `memory` is the number of bytes that the script may use during verification. Raises NoRepro if no script can hold
    the Case yet.
    """
    variant = variant or Variant(symbolic=case.symbolic)
    case = with_public_flex(as_function(attributes_as_inputs(case)))
    definitions = definitions_left(case)
    script_names = names_bound(definitions)
    names = _names(case, script_names)
    inputs = {node.name: names.for_input(case, node.name) for node in case.graph.placeholders}
    modules = {
        key: f"module{i or ''}" for i, (key, module) in enumerate(case.graph.modules.items()) if not module.graph
    }
    source = function_source(case.graph, names, inputs, modules.__getitem__, plain_aten=case.level is not Level.DYNAMO)
    changes = template_changes(case, template, variant, inputs, names)
    storages = {storage: names.for_base() for storage in drawn_storages(case.inputs)}
    input_imports, statements, stored = input_lines(case, {**inputs, **storages}, seeded=changes.draws)
    if variant.symbolic is Symbolic.MARKED:
        statements += marks(case, inputs)
    settings = settings_source(case.state, script_names)
    constructors = [f"{name} = {_constructor(target, case.graph.modules[target])}" for target, name in modules.items()]
    arguments = backend_arguments(case, template, variant, script_names)
    backend = mark_names(case.backend.expression, script_names)
    earlier = earlier_source(case, (template, variant), backend, arguments, script_names, inputs)
    logging = _logging(case.failure.message) if variant.logging else ()
    environment = variables_source(case.state) if variant.environment else VariablesSource()
    files = files_read(case.backend) if variant.files else {}
    text = fill(
        template.value,
        Filling(
            imports=(
                *case.backend.imports,
                *imports_of(case.backend.options),
                *operator_imports(case),
                *settings.imports,
                *input_imports,
                *source.imports,
                *changes.imports,
                *earlier.imports,
                *environment.imports,
                *(["import logging"] if logging else ()),
            ),
            first_imports=case.backend.ahead,
            environment=environment.statements,
            settings=(*logging, *settings.statements, *constructors),
            settings_of_script=(*settings.of_script, *earlier.bindings),
            before=(*earlier.functions, *source.before),
            parameters=tuple(source.parameters),
            body=tuple(source.body),
            inputs=(*statements, *changes.inputs),
            arguments=tuple(source.parameters) if changes.arguments is None else changes.arguments,
            backend=earlier.backend,
            backend_arguments=earlier.arguments,
            contexts=contexts(case.state),
            footer=(*footer(case, inputs, [name for name, _ in environment.elsewhere]), *said_of_files(files)),
            replacements=changes.replacements,
            definitions=changes.definitions,
            wrapping=_wrapping(case, template, variant, memory, earlier),
            script_definitions=split_imports(definitions),
            script_names=frozenset(script_names & TEMPLATE_NAMES - {"torch", "faulthandler", "resource"}),
        ),
    )
    tensors = case.tensors if stored else None
    given = dict(environment.elsewhere)
    return Repro(text, template, tensors, variant, _variables(source), {**environment.files, **files}, given)


def _variables(source: FunctionSource) -> dict[str, str]:
    """Map nodes to the variables that hold them; an op in the return statement has none."""
    words = set(re.findall(r"\w+", "\n".join([*source.parameters, *source.body])))
    return {node: name for node, name in source.name_of.items() if name in words and not keyword.iskeyword(name)}


@dataclass(frozen=True, slots=True)
class StateSource:
    """Statements that set configuration, default dtype and switches, and their imports.

    `of_script` are the statements that need the script's own definitions.
    """

    imports: tuple[str, ...]
    statements: tuple[str, ...]
    of_script: tuple[str, ...]


def settings_source(state: State, marked: Collection[str] = ()) -> StateSource:
    """Return the statements that make the state. Names in `marked` are marked as the user's."""
    imports = dict.fromkeys(imports_of_config(state.config))
    lines: list[str] = []
    of_script: list[str] = []
    for module, key, value in state.config:
        if script_names(value):
            of_script.append(f"{module}.{key} = {mark_names(literal(value), marked)}")
        else:
            lines.append(setting_statement((module, key, value)))
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return StateSource(tuple(imports), (*lines, *statements(state)), tuple(of_script))


def backend_arguments(
    case: Case, template: Template, variant: Variant, script_names: Collection[str] = ()
) -> tuple[str, ...]:
    """Return further keyword arguments of torch.compile, or of a backend that the template calls directly.

    Names in `script_names` are marked as the user's in the options.
    """
    backend = case.backend
    arguments = []
    if backend.mode is not None:
        arguments.append(f"mode={literal(backend.mode)}")
    if backend.options is not None:
        arguments.append(f"options={mark_names(literal(backend.options), script_names)}")
    if template is Template.CALL_BACKEND:
        return tuple(arguments)
    if variant.symbolic is Symbolic.GIVEN:
        arguments.append("dynamic=True")
    elif backend.dynamic is not None and variant.symbolic is None:
        arguments.append(f"dynamic={backend.dynamic}")
    return tuple(arguments)
