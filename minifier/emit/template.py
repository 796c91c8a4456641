"""Fills a template, a real script, with libcst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

import repro_templates

_LONGEST = 100


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


def _function(filling: Filling, original: cst.FunctionDef) -> list[cst.BaseCompoundStatement]:
    body = "\n".join(f"    {line}" for line in filling.body)
    texts = [*filling.before, f"def {original.name.value}({', '.join(filling.parameters)}):\n{body}"]
    made = []
    for text in texts:
        statement = cst.parse_statement(text)
        assert isinstance(statement, cst.FunctionDef)
        made.append(statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2))
    return list(made)


def _is_input(statement: cst.CSTNode) -> bool:
    if not (isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign)):
        return False
    target = statement.body[0].targets[0].target
    return isinstance(target, cst.Name) and target.value == "x"


def _parsed(texts: Sequence[str], blank_before: bool = False) -> list[cst.BaseStatement]:
    made = [cst.parse_statement(text) for text in texts]
    if blank_before and made:
        blank = [cst.EmptyLine(indent=False)] * 2
        made[0] = made[0].with_changes(leading_lines=blank)
    return list(made)


def _wrapped(statement: cst.BaseStatement, contexts: Sequence[str]) -> cst.BaseStatement:
    if not contexts:
        return statement
    code = cst.Module([statement]).code.strip()
    inner = "\n".join(f"    {line}" for line in code.splitlines())
    return cst.parse_statement(f"with {', '.join(contexts)}:\n{inner}\n")


def fill(name: str, filling: Filling) -> str:
    """The script made from the template of that name."""
    path = Path(repro_templates.__file__).with_name(f"{name}.py")
    template = cst.parse_module(path.read_text(encoding="utf-8"))
    changer = _Fill(filling)
    body: list[cst.BaseStatement] = []
    extra = [text for text in filling.imports if text != "import torch"]
    imports = [s for s in template.body if _is_import(s)]
    rest = [s for s in template.body if not _is_import(s)]
    own = [cst.Module([s]).code.strip() for s in imports]
    order = sorted({*own, *extra}, key=_import_order)
    body += _parsed(order)
    settings = _parsed(filling.settings)
    if settings:
        settings[0] = settings[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    body += settings
    for statement in rest:
        if isinstance(statement, cst.FunctionDef):
            body += _function(filling, statement)
        elif _is_input(statement):
            body += _parsed(filling.inputs or (), blank_before=True)
        else:
            made = statement.visit(changer)
            assert isinstance(made, cst.BaseStatement)
            is_last = statement is rest[-1]
            made = _wrapped(made, filling.contexts) if is_last else made
            if not filling.inputs and not any(
                isinstance(s, cst.SimpleStatementLine) and not _is_import(s) for s in body
            ):
                made = made.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)
            body.append(made)
    code = template.with_changes(body=body, header=[]).code
    return code.rstrip() + "\n\n" + "\n".join(f"# {line}".rstrip() for line in filling.footer) + "\n"


def _import_order(line: str) -> tuple[bool, bool, str]:
    module = line.split()[1]
    import sys

    third_party = module.partition(".")[0] not in sys.stdlib_module_names
    return (
        third_party,
        line.startswith("from") and not third_party,
        module if not module.startswith("torch") else " " + module,
    )
