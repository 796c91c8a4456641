"""Fills a template, a real script, with libcst."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from minifier.emit.definitions import Definitions, as_written, keep_script_names
from minifier.emit.statements import Statement, apart, code_of, names_as_arguments, parsed, under_contexts
from minifier.emit.wrapping_statements import Surroundings, surrounded
from minifier.templates import template_source

_TAKE_INPUTS = ("fn", "f", "compiled", "compiler", "sharing")
# The backends that the templates themselves name.
_BACKENDS = ('"eager"', '"aot_eager_default_partitioner"')


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into a template: all of it source text.

    `environment` are statements that come before torch is imported; `before` are the functions that `fn`
    calls. `replacements` maps texts of the template to others, in the template's own terms; `definitions` has, by
    name, statements that take the place of its functions and classes. `of_script` is taken from the user's script,
    which has the names `names_of_script` for its own.
    """

    imports: tuple[str, ...]
    environment: tuple[str, ...]
    settings: tuple[str, ...]
    before: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    inputs: tuple[str, ...]
    arguments: tuple[str, ...]
    backend: str
    backend_arguments: tuple[str, ...]
    contexts: tuple[str, ...]
    footer: tuple[str, ...]
    replacements: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    surroundings: Surroundings = field(default_factory=Surroundings)
    of_script: Definitions = field(default_factory=Definitions)
    names_of_script: frozenset[str] = frozenset()


def _keyword(text: str) -> cst.Arg:
    key, _, value = text.partition("=")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name(key), equal=equal)


class _Fill(cst.CSTTransformer):
    """Puts the backend, its arguments and the inputs where the template has its own."""

    def __init__(self, filling: Filling) -> None:
        super().__init__()
        self.filling = filling

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        if original_node.value in _BACKENDS:
            return cst.parse_expression(self.filling.backend)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        for arg in updated_node.args:
            text = code_of(arg.value) if _takes_inputs(original_node) else ""
            if text == "x" and arg.star == "":
                args += names_as_arguments(self.filling.arguments)
            elif text == "[x]":
                every = f"[{', '.join(self.filling.arguments)}]"
                args.append(arg.with_changes(value=cst.parse_expression(every)))
            else:
                args.append(arg)
        names_backend = any(arg.keyword is not None and arg.keyword.value == "backend" for arg in args)
        calls_backend = code_of(original_node.func) == 'lookup_backend("eager")'
        if names_backend or calls_backend:
            args += map(_keyword, self.filling.backend_arguments)
        if code_of(original_node.func) == "range":
            args = names_as_arguments([str(self.filling.surroundings.calls)])
        args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]
        return updated_node.with_changes(args=args)


def _takes_inputs(call: cst.Call) -> bool:
    """Whether what is called is the function or what a backend made of it; other calls of `x` mean one tensor."""
    return isinstance(call.func, cst.Call) or code_of(call.func) in _TAKE_INPUTS


class _HelperContexts(cst.CSTTransformer):
    """Puts the call inside a function of the template's own under the state of the Case."""

    def __init__(self, contexts: Sequence[str]) -> None:
        super().__init__()
        self.contexts = contexts

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Statement:
        if code_of(original_node) == "f(x)":
            return under_contexts([updated_node], self.contexts)
        return updated_node


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _functions(filling: Filling) -> list[Statement]:
    """The function, after those it calls."""
    body = "\n".join(f"    {line}" for line in filling.body)
    return parsed([*filling.before, f"def fn({', '.join(filling.parameters)}):\n{body}"])


def _inputs_function(filling: Filling) -> Statement:
    """A function that makes the inputs anew each time; of one plain input, its value is what it returns."""
    lines, names = list(filling.inputs), ", ".join(filling.arguments)
    only = f"{filling.arguments[0]} = " if len(filling.arguments) == 1 else "\n"
    if lines and lines[-1].startswith(only):
        lines[-1] = f"return [{lines[-1].removeprefix(only)}]"
    else:
        lines.append(f"return [{names}]")
    body = textwrap.indent("\n".join(lines), "    ")
    return cst.parse_statement(f"def inputs():\n{body}")


def _is_input(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)):
        return False
    target = statement.body[0].targets[0].target
    return isinstance(target, cst.Name) and target.value == "x"


def _visited(statement: Statement, changer: cst.CSTTransformer) -> Statement:
    made = statement.visit(changer)
    assert isinstance(made, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return made


def _template(name: str, replacements: Mapping[str, str]) -> cst.Module:
    text = template_source(name)
    for old, new in replacements.items():
        assert old in text, f"the template {name} has no {old!r}"
        text = text.replace(old, new)
    return cst.parse_module(text)


def fill(name: str, filling: Filling) -> str:
    """The script made from the template of that name: its imports and more, settings, the functions, the
    inputs, and its last statements with backend and inputs put in."""
    template = _template(name, filling.replacements)
    changer = _Fill(filling)
    definitions: list[Statement] = []
    inputs: list[Statement] = []
    action: list[Statement] = []
    for statement in template.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            defined = statement.name.value
            if defined == "fn":
                definitions += _functions(filling)
            elif defined == "inputs":
                definitions.append(_inputs_function(filling))
            elif defined in filling.definitions:
                definitions += parsed(filling.definitions[defined])
            else:
                definitions.append(_visited(_visited(statement, _HelperContexts(filling.contexts)), changer))
        elif _is_input(statement):
            inputs += parsed(filling.inputs)
        elif not _is_import(statement):
            action.append(_visited(statement, changer))
    imports = {code_of(statement) for statement in template.body if _is_import(statement)}
    action, more = surrounded(action, filling.contexts, filling.surroundings)
    body = _head(filling, imports.union(filling.imports, more, filling.of_script.imports))
    body += as_written(filling.of_script.statements)
    body += [apart(keep_script_names(statement, filling.names_of_script), 2) for statement in definitions]
    action = [keep_script_names(statement, filling.names_of_script) for statement in (*inputs, *action)]
    action[0] = apart(action[0], 2)
    code = template.with_changes(body=[*body, *action], header=[]).code
    return code.rstrip() + "\n\n" + "\n".join(f"# {line}".rstrip() for line in filling.footer) + "\n"


def _head(filling: Filling, imports: set[str]) -> list[Statement]:
    """Imports and settings; what torch reads when it is imported comes before it."""
    head: list[Statement] = parsed(filling.of_script.future)
    if filling.environment:
        early = {line for line in imports if line.split()[1].partition(".")[0] in sys.stdlib_module_names}
        early.add("import os")
        environment = parsed(filling.environment)
        head += [*parsed(_in_order(early)), apart(environment[0], 1), *environment[1:]]
        imports = imports - early
    rest = parsed(_in_order(imports))
    head += [*(apart(s, 1 if head else 0) for s in rest[:1]), *rest[1:]]
    settings = parsed(filling.settings)
    return [*head, *(apart(s, 1) for s in settings[:1]), *settings[1:]]


def _in_order(lines: Collection[str]) -> list[str]:
    """The lines as they stand in a script: sorted, and what comes from one module in one line."""
    names: dict[str, list[str]] = {}
    for line in sorted(lines, key=_import_order):
        module, _, imported = line.partition(" import ")
        names.setdefault(module, []).extend(imported.split(", ") if imported else [])
    return [
        f"{module} import {', '.join(dict.fromkeys(named))}" if named else module for module, named in names.items()
    ]


def _import_order(line: str) -> tuple[bool, bool, str]:
    """Standard library first; in each block `import` before `from`; torch before the rest."""
    top = line.split()[1].partition(".")[0]
    return top not in sys.stdlib_module_names, line.startswith("from"), line if top != "torch" else ""
