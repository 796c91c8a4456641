"""Build the text of a Case's repro, and write the script with its tensor file."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minifier.capturing.slicing.cases import definitions_left, names_bound
from minifier.data.case import Case, State, Symbolic
from minifier.data.case.calls import as_function, attributes_as_inputs
from minifier.data.case.inputs import drawn_storages
from minifier.data.case.literals import imports_of, imports_of_config, literal, script_names, setting_statement
from minifier.data.case.store import copy_atomically, write_atomically
from minifier.data.case.switches import statements
from minifier.data.failure import Failure, Kind
from minifier.repro.emit.files_beside import NOTE_OF_FILE, VariablesSource, files_read, variables_source
from minifier.repro.emit.footer import footer, imports_of_operators
from minifier.repro.emit.forms import Form, Template, Variant, makes_inputs
from minifier.repro.emit.graph_source import FunctionSource, function_source, with_public_flex
from minifier.repro.emit.input_source import TENSOR_FILE, input_lines, marks
from minifier.repro.emit.script_text import (
    TEMPLATE_NAMES,
    Names,
    blank_lines_above,
    is_stdlib,
    keep_script_names,
    mark_names,
    page,
    sorted_imports,
    split_imports,
    under,
)
from minifier.repro.emit.statements import call_source, form_source, imports_of_template, wrapped


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
    names: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the files next to the script, which hold the user's own data."""
        return (*((TENSOR_FILE,) if self.tensors is not None else ()), *self.files)

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


def _logging(failure: Failure) -> tuple[str, ...]:
    """Return the statements with which a `LEVEL logger: message` line appears on stderr; none for the usual levels."""
    level, _, rest = failure.message.partition(" ")
    if failure.fingerprint.kind is not Kind.SILENT_FALLBACK or level in ("WARNING", "ERROR", "CRITICAL"):
        return ()
    if level != "DEBUG":  # INFO, or a level of the backend's own
        return ("logging.basicConfig(level=logging.INFO)",)
    return ("logging.basicConfig()", f"logging.getLogger({literal(rest.partition(':')[0])}).setLevel(logging.DEBUG)")


def _names(case: Case, script_names: Collection[str]) -> Names:
    """Return a name generator that avoids all names that the repro imports or defines."""
    functions = [node.target.partition(":")[2].partition(".")[0] for node in case.graph.ops if ":" in node.target]
    packages = [re.split("[.:]", node.target)[0] for node in case.graph.ops if node.op == "call_function"]
    lines = (*case.backend.ahead, *case.backend.imports, *imports_of(case.backend.options))
    bound = names_bound("\n".join(lines)) | names_bound(case.measure.predicate)
    return Names({*script_names, *functions, *packages, *bound})


def write_repro(case: Case, template: Template, variant: Variant | None = None, memory: int | None = None) -> Repro:
    """Return the script in this form, by default without optional additions.

    `memory` is the number of bytes that the script may use during verification. Raises NoRepro if no script can hold
    the Case yet.
    """
    variant = variant or Variant(symbolic=case.symbolic)
    form = template, variant
    case = with_public_flex(as_function(attributes_as_inputs(case)))
    script_code = definitions_left(case)
    script_names = names_bound(script_code)
    names = _names(case, script_names)
    inputs = {node.name: names.for_input(case, node.name) for node in case.graph.placeholders}
    source = function_source(case.graph, names, inputs)
    arguments = _backend_arguments(case, form, script_names)
    backend = mark_names(case.backend.expression, script_names)
    calls = call_source(case, form, backend, arguments, script_names, inputs)
    own = form_source(case, form, calls, inputs, names)
    steps, guards = wrapped(
        case, own.steps, calls.head, calls.steps, calls.in_a_row, recompile=variant.recompile, memory=memory
    )
    storages = {storage: names.for_base() for storage in drawn_storages(case.inputs)}
    input_imports, statements, stored = input_lines(case, {**inputs, **storages}, seeded=own.draws)
    if variant.symbolic is Symbolic.MARKED:
        statements += marks(case, inputs)
    definitions = [*calls.functions, *source.before, under(f"def fn({', '.join(source.parameters)}):", source.body)]
    if makes_inputs(case, form):
        definitions.append(_inputs_function(statements, source.parameters))
        statements = []
    imports_of_settings, settings, settings_of_script = _settings(case.state, script_names)
    logging = _logging(case.failure)
    environment = variables_source(case.state) if variant.environment else VariablesSource()
    given = dict(environment.elsewhere)
    files = files_read(case.backend) if variant.files else {}
    of_script = split_imports(script_code)
    imports = {
        *imports_of_template(template), *case.backend.imports, *imports_of(case.backend.options), *imports_of_settings,
        *imports_of_operators(case), *input_imports, *source.imports, *own.imports, *calls.imports,
        *environment.imports, *guards, *of_script.imports, *(["import logging"] if logging else ()),
    }  # fmt: skip
    stdlib = {"import os", *filter(is_stdlib, imports)} if environment.statements else set()
    clashing = script_names & TEMPLATE_NAMES - {"torch", "faulthandler", "resource"}

    def kept(texts: Sequence[str]) -> list[str]:
        return [keep_script_names(text, clashing) for text in texts]

    text = page([
        (0, of_script.future),
        (0, sorted_imports(stdlib)),
        (1, environment.statements),
        (1, [*case.backend.ahead, *sorted_imports(imports - stdlib - {*case.backend.ahead})]),
        (1, [*logging, *settings]),
        (blank_lines_above(of_script.source), [of_script.source] if of_script.source else []),
        (2, kept([*settings_of_script, *calls.bindings])),
        *((2, kept([definition])) for definition in [*definitions, *own.definitions]),
        (2, kept([*statements, *own.inputs, *steps])),
        (1, [f"# {line}".rstrip() for line in (*footer(case, inputs, given), *map(NOTE_OF_FILE.format, files))]),
    ])  # fmt: skip
    tensors = case.tensors if stored else None
    return Repro(text, template, tensors, variant, _variables(source), {**environment.files, **files}, given)


def _inputs_function(statements: Sequence[str], names: Sequence[str]) -> str:
    """Return a function that creates new inputs in each call. A single input is returned without an assignment."""
    lines = list(statements)
    assignment = f"{names[0]} = " if len(names) == 1 else "\n"
    if lines and lines[-1].startswith(assignment):
        lines[-1] = f"return [{lines[-1].removeprefix(assignment)}]"
    else:
        lines.append(f"return [{', '.join(names)}]")
    return under("def inputs():", lines)


def _variables(source: FunctionSource) -> dict[str, str]:
    """Map nodes to the variables that hold them; an op in the return statement has none."""
    words = set(re.findall(r"\w+", "\n".join([*source.parameters, *source.body])))
    return {node: name for node, name in source.name_of.items() if name in words and not keyword.iskeyword(name)}


def _settings(state: State, marked: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Return (imports, statements, statements that need the script's own definitions) that make the state.

    Names in `marked` are marked as the user's.
    """
    lines: list[str] = []
    of_script: list[str] = []
    for module, key, value in state.config:
        if script_names(value):
            of_script.append(f"{module}.{key} = {mark_names(literal(value), marked)}")
        else:
            lines.append(setting_statement((module, key, value)))
    if state.default_dtype != "float32":
        lines.append(f"torch.set_default_dtype(torch.{state.default_dtype})")
    return [*imports_of_config(state.config)], [*lines, *statements(state)], of_script


def _backend_arguments(case: Case, form: Form, script_names: Collection[str]) -> tuple[str, ...]:
    """Return further keyword arguments of torch.compile, or of a backend that the template calls directly.

    Names in `script_names` are marked as the user's in the options.
    """
    template, variant = form
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
