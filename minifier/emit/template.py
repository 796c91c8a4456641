"""Fills a template, a real script, with libcst."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

import repro_templates

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Filling:
    """What goes into a template: all of it source text."""

    imports: tuple[str, ...]
    settings: tuple[str, ...]
    before: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    inputs: tuple[str, ...]
    arguments: tuple[str, ...]
    calls: int
    backend: str
    backend_arguments: tuple[str, ...]
    contexts: tuple[str, ...]
    footer: tuple[str, ...]


def _names(texts: Sequence[str]) -> list[cst.Arg]:
    return [cst.Arg(cst.parse_expression(text)) for text in texts]


def _keyword(text: str) -> cst.Arg:
    key, _, value = text.partition("=")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name(key), equal=equal)


class _Fill(cst.CSTTransformer):
    """Replaces, in the template's last statements, the backend, its arguments and the inputs."""

    def __init__(self, filling: Filling) -> None:
        super().__init__()
        self.filling = filling

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        if original_node.value == '"eager"':
            return cst.parse_expression(self.filling.backend)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        for arg in updated_node.args:
            if isinstance(arg.value, cst.Name) and arg.value.value == "x":
                args += _names(self.filling.arguments)
            elif isinstance(arg.value, cst.List):
                text = f"[{', '.join(self.filling.arguments)}]"
                args.append(arg.with_changes(value=cst.parse_expression(text)))
            else:
                args.append(arg)
        if isinstance(updated_node.func, cst.Name) and updated_node.func.value == "range":
            args = _names([str(self.filling.calls)])
        names_backend = any(arg.keyword is not None and arg.keyword.value == "backend" for arg in args)
        calls_backend = any(isinstance(arg.value, cst.List) for arg in updated_node.args)
        if names_backend or calls_backend:
            args += map(_keyword, self.filling.backend_arguments)
        args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]
        return updated_node.with_changes(args=args)


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _functions(filling: Filling, name: str) -> list[Statement]:
    """The function, after those it calls."""
    body = "\n".join(f"    {line}" for line in filling.body)
    texts = [*filling.before, f"def {name}({', '.join(filling.parameters)}):\n{body}"]
    return [_apart(statement, 2) for statement in _parsed(texts)]


def _is_input(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)):
        return False
    target = statement.body[0].targets[0].target
    return isinstance(target, cst.Name) and target.value == "x"


def _parsed(texts: Sequence[str]) -> list[Statement]:
    return [cst.parse_statement(text) for text in texts]


def _apart(statement: Statement, lines: int) -> Statement:
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * lines)


def _wrapped(statement: Statement, contexts: Sequence[str]) -> Statement:
    if not contexts:
        return statement
    code = cst.Module([statement]).code.strip()
    inner = "\n".join(f"    {line}" for line in code.splitlines())
    return cst.parse_statement(f"with {', '.join(contexts)}:\n{inner}\n")


def fill(name: str, filling: Filling) -> str:
    """The script made from the template of that name: its imports and more, settings, the function, the
    inputs, and its last statements with backend and inputs put in."""
    path = Path(repro_templates.__file__).with_name(f"{name}.py")
    template = cst.parse_module(path.read_text(encoding="utf-8"))
    imports = {cst.Module([s]).code.strip() for s in template.body if _is_import(s)}
    body = _parsed(sorted(imports.union(filling.imports), key=_import_order))
    settings = _parsed(filling.settings)
    body += [_apart(s, 1) for s in settings[:1]] + settings[1:]
    changer = _Fill(filling)
    action: list[Statement] = []
    for statement in template.body:
        if isinstance(statement, cst.FunctionDef):
            body += _functions(filling, statement.name.value)
        elif _is_input(statement):
            action += _parsed(filling.inputs)
        elif not _is_import(statement):
            made = statement.visit(changer)
            assert isinstance(made, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            action.append(made)
    action[-1] = _wrapped(action[-1], filling.contexts)
    action[0] = _apart(action[0], 2)
    code = template.with_changes(body=[*body, *action], header=[]).code
    return code.rstrip() + "\n\n" + "\n".join(f"# {line}".rstrip() for line in filling.footer) + "\n"


def _import_order(line: str) -> tuple[bool, bool, str]:
    """Standard library first; in each block `import` before `from`; torch before the rest."""
    top = line.split()[1].partition(".")[0]
    return top not in sys.stdlib_module_names, line.startswith("from"), line if top != "torch" else ""
