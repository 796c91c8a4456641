"""Fill a template, which is a runnable script, with libcst."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import libcst as cst

from minifier.emit.definitions import Definitions, keep_script_names, set_apart
from minifier.emit.forms import template_source
from minifier.emit.statements import Statement, apart, code_of, names_as_arguments, parsed, transformed, under_contexts
from minifier.emit.wrapping_statements import Wrapping, wrap

_FUNCTIONS_OF_INPUTS = ("fn", "f", "compiled", "compiler", "sharing")
# Comments that mark a statement of a template.
_NUMBER_OF_CALLS, _CONTEXTS = "# fill in: the number of calls", "# fill in: the contexts"
_TEMPLATE_BACKENDS = ('"eager"', '"aot_eager_default_partitioner"')


@dataclass(frozen=True, slots=True)
class Filling:
    """Source texts for a template.

    `environment` are statements that run before torch is imported, `before` the functions that `fn` calls.
    `first_imports` keep their order and precede the sorted `imports`. If there is an `environment`, imports of the
    standard library precede both.
    `replacements` maps texts of the template to new texts, before inputs and backend are filled in. `definitions`
    replaces functions and classes, by name. `script_definitions` come from the user's script; the template's own
    uses of `script_names` are renamed.
    """

    imports: tuple[str, ...]
    first_imports: tuple[str, ...]
    environment: tuple[str, ...]
    settings: tuple[str, ...]
    settings_of_script: tuple[str, ...]
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
    wrapping: Wrapping = field(default_factory=Wrapping)
    script_definitions: Definitions = field(default_factory=Definitions)
    script_names: frozenset[str] = frozenset()


def _keyword(text: str) -> cst.Arg:
    key, _, value = text.partition("=")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name(key), equal=equal)


class _Fill(cst.CSTTransformer):
    """Replaces the template's backend, backend arguments and inputs, and the statements marked by comments."""

    def __init__(self, filling: Filling) -> None:
        super().__init__()
        self.filling = filling

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        if original_node.value in _TEMPLATE_BACKENDS:
            return cst.parse_expression(self.filling.backend)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        for arg in updated_node.args:
            text = code_of(arg.value) if _takes_inputs(original_node) else ""
            if text == "x" and arg.star == "":
                args += names_as_arguments(self.filling.arguments)
            elif text == "[x]":
                inputs = f"[{', '.join(self.filling.arguments)}]"
                args.append(arg.with_changes(value=cst.parse_expression(inputs)))
            else:
                args.append(arg)
        names_backend = any(arg.keyword is not None and arg.keyword.value == "backend" for arg in args)
        calls_backend = code_of(original_node.func) == 'lookup_backend("eager")'
        if names_backend or calls_backend:
            args += map(_keyword, self.filling.backend_arguments)
        args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]
        return updated_node.with_changes(args=args)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        block = updated_node.body
        if not isinstance(block, cst.IndentedBlock) or not _is_marked(block.header, _NUMBER_OF_CALLS):
            return updated_node
        block = block.with_changes(header=cst.TrailingWhitespace())
        calls = cst.parse_expression(f"range({self.filling.wrapping.calls})")
        return updated_node.with_changes(iter=calls, body=block)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Statement:
        if not _is_marked(original_node.trailing_whitespace, _CONTEXTS):
            return updated_node
        statement = updated_node.with_changes(trailing_whitespace=cst.TrailingWhitespace())
        return under_contexts([statement], self.filling.contexts)


def _is_marked(end_of_line: cst.TrailingWhitespace, mark: str) -> bool:
    return end_of_line.comment is not None and end_of_line.comment.value == mark


def _takes_inputs(call: cst.Call) -> bool:
    """Tell whether the function is called, compiled or not. In other calls, `x` means a single tensor."""
    return isinstance(call.func, cst.Call) or code_of(call.func) in _FUNCTIONS_OF_INPUTS


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _functions(filling: Filling) -> list[Statement]:
    """Return the functions that `fn` calls, then `fn`."""
    body = "\n".join(f"    {line}" for line in filling.body)
    return parsed([*filling.before, f"def fn({', '.join(filling.parameters)}):\n{body}"])


def _inputs_function(filling: Filling) -> Statement:
    """Return a function that creates new inputs in each call. A single input is returned without an assignment."""
    lines, names = list(filling.inputs), ", ".join(filling.arguments)
    assignment = f"{filling.arguments[0]} = " if len(filling.arguments) == 1 else "\n"
    if lines and lines[-1].startswith(assignment):
        lines[-1] = f"return [{lines[-1].removeprefix(assignment)}]"
    else:
        lines.append(f"return [{names}]")
    body = textwrap.indent("\n".join(lines), "    ")
    return cst.parse_statement(f"def inputs():\n{body}")


def _is_input(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)):
        return False
    target = statement.body[0].targets[0].target
    return isinstance(target, cst.Name) and target.value == "x"


def _template(name: str, replacements: Mapping[str, str]) -> cst.Module:
    text = template_source(name)
    for old, new in replacements.items():
        assert old in text, f"the template {name} has no {old!r}"
        text = text.replace(old, new)
    return cst.parse_module(text)


def fill(name: str, filling: Filling) -> str:
    """Return the script: imports, settings, functions, inputs, and the last statements of the template `name`."""
    template = _template(name, filling.replacements)
    fill_in = _Fill(filling)
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
                definitions.append(transformed(statement, fill_in))
        elif _is_input(statement):
            inputs += parsed(filling.inputs)
        elif not _is_import(statement):
            action.append(transformed(statement, fill_in))
    imports = {code_of(statement) for statement in template.body if _is_import(statement)}
    action, wrapping_imports = wrap(action, filling.contexts, filling.wrapping)
    body = _head(filling, imports.union(filling.imports, wrapping_imports, filling.script_definitions.imports))
    body += set_apart(filling.script_definitions.statements)
    set_by_script = [keep_script_names(each, filling.script_names) for each in parsed(filling.settings_of_script)]
    body += [apart(each, 0 if number else 2) for number, each in enumerate(set_by_script)]
    body += [apart(keep_script_names(statement, filling.script_names), 2) for statement in definitions]
    action = [keep_script_names(statement, filling.script_names) for statement in (*inputs, *action)]
    action[0] = apart(action[0], 2)
    code = template.with_changes(body=[*body, *action], header=[]).code
    return code.rstrip() + "\n\n" + "\n".join(f"# {line}".rstrip() for line in filling.footer) + "\n"


def _head(filling: Filling, imports: set[str]) -> list[Statement]:
    """Return imports and settings. Environment variables are set before torch is imported."""
    head: list[Statement] = parsed(filling.script_definitions.future)
    if filling.environment:
        stdlib = {line for line in imports if line.split()[1].partition(".")[0] in sys.stdlib_module_names}
        stdlib.add("import os")
        environment = parsed(filling.environment)
        head += [*parsed(_sorted_imports(stdlib)), apart(environment[0], 1), *environment[1:]]
        imports = imports - stdlib
    rest = parsed([*filling.first_imports, *_sorted_imports(imports.difference(filling.first_imports))])
    head += [*(apart(s, 1 if head else 0) for s in rest[:1]), *rest[1:]]
    settings = parsed(filling.settings)
    return [*head, *(apart(s, 1) for s in settings[:1]), *settings[1:]]


def _sorted_imports(lines: Collection[str]) -> list[str]:
    """Sort import lines, and merge `from` imports of the same module."""
    names: dict[str, dict[str, None]] = {}
    for line in sorted(lines, key=_import_order):
        module, _, imported = line.partition(" import ")
        names.setdefault(module, {}).update(dict.fromkeys(imported.split(", ") if imported else []))
    return [f"{module} import {', '.join(imported)}" if imported else module for module, imported in names.items()]


def _import_order(line: str) -> tuple[bool, bool, str, str]:
    """Return the sort key: standard library first, `import` before `from`, torch before other packages."""
    top = line.split()[1].partition(".")[0]
    return top not in sys.stdlib_module_names, line.startswith("from"), line if top != "torch" else "", line
