"""Edits that inline functions, imported names and whole modules next to the script, where they are used."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing import Wanted, names_bound, slice_module
from minifier.capturing.slicing.module_statements import ModuleStatements, dotted
from minifier.data.torch_names import loaded_with_torch
from minifier.repro.source.patches import (
    EVALUATED_LATER,
    Changes,
    Edited,
    after,
    applied,
    changed,
    is_operation,
    put_value,
    uses_of,
)

_MAX_QUALIFIED_USES = 3  # of an imported name: with more of them the import is shorter
_RESULT = "_result_of_call"  # stands for a returned value until it is put there
_Line = cst.SimpleStatementLine


def without_functions(module: cst.Module) -> Iterator[Edited]:
    """A function that only calls another, or whose body fits in the place of its calls, goes."""
    methods = _methods(module)
    for node in m.findall(module, m.FunctionDef()):
        if not isinstance(node, cst.FunctionDef) or node.decorators or not _has_positional_parameters_only(node):
            continue
        name = node.name.value
        if node in methods:
            if not name.startswith("__") and methods[node] == 1:
                yield from _with_body_for_calls(module, node, m.Attribute(attr=m.Name(name)), is_method=True)
            continue
        yield from _without_wrapper(module, node)
        yield from _with_body_for_calls(module, node, m.Name(name))


def _methods(module: cst.Module) -> dict[cst.CSTNode, int]:
    """Return the statements of classes, and how many of them all define a method of this name."""
    classes = [node for node in m.findall(module, m.ClassDef()) if isinstance(node, cst.ClassDef)]
    statements = [each for node in classes for each in node.body.body]
    count = Counter(each.name.value for each in statements if isinstance(each, cst.FunctionDef))
    return {each: count[each.name.value] if isinstance(each, cst.FunctionDef) else 0 for each in statements}


def _has_positional_parameters_only(function: cst.FunctionDef) -> bool:
    params = function.params
    is_simple = isinstance(params.star_arg, cst.MaybeSentinel) and not params.kwonly_params
    return is_simple and params.star_kwarg is None and not params.posonly_params


def _body(function: cst.FunctionDef) -> Sequence[cst.BaseSmallStatement | cst.BaseCompoundStatement]:
    """Return the function's statements; empty if a line has several."""
    lines = function.body.body
    if any(isinstance(line, _Line) and len(line.body) != 1 for line in lines):
        return ()
    return [line.body[0] if isinstance(line, _Line) else line for line in lines]  # type: ignore[misc]


def _result(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return the expression that is the whole body of the function."""
    body = _body(function)
    if len(body) != 1 or not isinstance(body[0], (cst.Return, cst.Expr)):
        return None
    return body[0].value


def _without_wrapper(module: cst.Module, function: cst.FunctionDef) -> Iterator[Edited]:
    """Yield the module without `def f(x): return g(x)`, with `g` in place of `f`."""
    call, name = _result(function), function.name.value
    params = [param.name.value for param in function.params.params]
    if not isinstance(call, cst.Call) or any(arg.star or arg.keyword for arg in call.args):
        return
    args = [arg.value.value if isinstance(arg.value, cst.Name) else None for arg in call.args]
    if args == params and not any(uses_of(call.func, each) for each in (*params, name)):
        yield from applied(module, Changes({function: []}), put_value(name, call.func))


def _with_body_for_calls(
    module: cst.Module, function: cst.FunctionDef, name: m.Name | m.Attribute, is_method: bool = False
) -> Iterator[Edited]:
    """Yield the module with the function's body in place of its only call, or with its result in place of each call.

    A method has to be called of a variable, which is its first argument.
    """
    calls = [call for call in m.findall(module, m.Call(func=name)) if isinstance(call, cst.Call)]
    uses = m.findall(module, name) if is_method else uses_of(module, function.name.value)
    result, given = _result(function), [_values_given(function, call, is_method) for call in calls]
    values = [each for each in given if each is not None]
    if not calls or len(values) != len(uses) or (result is None and len(calls) > 1):
        return
    if m.findall(function, m.Call(func=name)):
        return
    moved = {function.name.value: _around(module, calls[0])}
    if result is not None:
        results = [new for each in values if (new := with_values(result, each)) is not None]
        lengths = [sum(len(module.code_for_node(node)) for node in nodes) for nodes in (results, [function, *calls])]
        if len(results) < len(calls) or lengths[0] > lengths[1]:
            return
        names = [f"{_RESULT}{number}" for number in range(len(calls))]
        changes = Changes({function: [], **{call: [cst.Name(each)] for call, each in zip(calls, names, strict=True)}})
        puts = [put_value(each, value) for each, value in zip(names, results, strict=True)]
        yield from applied(module, changes, *puts, moved=moved)
        return
    line = next((each for each in m.findall(module, m.SimpleStatementLine()) if _evaluates(each, calls[0])), None)
    statements = None if line is None else statements_for_call(line, calls[0], function, values[0])
    if line is not None and statements is not None:
        yield from applied(module, Changes({line: statements, function: []}), moved=moved)


def _values_given(function: cst.FunctionDef, call: cst.Call, is_method: bool) -> dict[str, cst.BaseExpression] | None:
    """Return the value of each parameter in a call; None unless all are known."""
    if not is_method:
        return arguments_of(function, call)
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(owner, cst.Name) or not function.params.params:
        return None
    return arguments_of(function, call.with_changes(args=[cst.Arg(owner), *call.args]))


def with_values(expression: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]) -> cst.BaseExpression | None:
    """Return the expression with values in place of names; None if that computes an operation more than once."""
    if any(len(uses_of(expression, name)) > 1 and is_operation(value) for name, value in values.items()):
        return None
    for name, value in values.items():
        new = changed(expression, put_value(name, value))
        if not isinstance(new, cst.BaseExpression):
            return None
        expression = new
    return expression


def _around(module: cst.Module, call: cst.Call) -> str:
    """Return the name of the innermost function around the call, or `<module>`."""
    around = [
        node.name.value
        for node in m.findall(module, m.FunctionDef())
        if isinstance(node, cst.FunctionDef) and call in m.findall(node.body, m.Call())
    ]
    return around[-1] if around else "<module>"


def statements_for_call(
    line: cst.CSTNode, call: cst.Call, function: cst.FunctionDef, values: Mapping[str, cst.BaseExpression]
) -> list[cst.BaseStatement] | None:
    """Return the function's body in the place of a line with its call, after assignments of its parameters.

    None if the body returns within other statements. A body without a `return` gives None to a line that needs a value.
    """
    assert isinstance(line, _Line)
    body = list(_body(function))
    if not body or len(_own_returns(function)) != isinstance(body[-1], cst.Return):
        return None
    statements: list[cst.BaseStatement] = [
        _Line([cst.Assign([cst.AssignTarget(cst.Name(param))], value)])
        for param, value in values.items()
        if not m.matches(value, m.Name(param))
    ]
    statements += [s if isinstance(s, cst.BaseCompoundStatement) else _Line([s]) for s in body]
    last_return = body[-1] if isinstance(body[-1], cst.Return) else None
    if last_return is not None:
        statements.pop()
    if last_return is not None or not m.matches(line.body[0], m.Expr(m.MatchIfTrue(lambda value: value is call))):
        value = last_return.value if last_return is not None else None
        put = put_value(_RESULT, cst.Name("None") if value is None else value)
        last = after(cst.Module([line]), Changes({call: [cst.Name(_RESULT)]}), put)
        if last is None:
            return None
        statements += last.body
    return statements


def _own_returns(function: cst.FunctionDef) -> list[cst.CSTNode]:
    """Return the function's `return`s, without those of functions in it."""
    nested = {id(each) for inner in m.findall(function.body, m.FunctionDef()) for each in m.findall(inner, m.Return())}
    return [each for each in m.findall(function, m.Return()) if id(each) not in nested]


def _evaluates(line: cst.CSTNode, call: cst.Call) -> bool:
    """Whether the line is an expression, an assignment or a `return`, and evaluates this call once."""
    assert isinstance(line, _Line)
    only = line.body[0] if len(line.body) == 1 else None
    if not isinstance(only, (cst.Expr, cst.Assign, cst.Return)) or call not in m.findall(only, m.Call()):
        return False
    return not any(call in m.findall(each, m.Call()) for each in m.findall(only, EVALUATED_LATER))


def arguments_of(function: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """Return the value of each parameter; None unless the call and the defaults give all values."""
    params = function.params.params
    values = {param.name.value: param.default for param in params}
    if len(call.args) > len(params) or any(arg.star for arg in call.args):
        return None
    for param, arg in zip(params, call.args, strict=False):
        name = arg.keyword.value if arg.keyword is not None else param.name.value
        if name not in values:
            return None
        values[name] = arg.value
    if any(value is None for value in values.values()):
        return None
    return {name: value for name, value in values.items() if value is not None}


def with_qualified_names(module: cst.Module) -> Iterator[Edited]:
    """`from a.b import c` goes where `a.b` is imported, and `c` is written as `a.b.c`.

    `import torch` imports many of torch's modules; in a probe, others are loaded which a fresh interpreter lacks.
    """
    imports = m.findall(module, m.Import())
    roots = {dotted(alias.name) for node in imports for alias in node.names if alias.asname is None}  # type: ignore
    for line in module.body:
        if not isinstance(line, _Line) or len(line.body) != 1:
            continue
        node = line.body[0]
        paths = _paths(node)
        imported = roots | (loaded_with_torch() if "torch" in roots else frozenset())
        if not paths or not all(path in imported or path.rpartition(".")[0] in imported for path in paths.values()):
            continue
        if any(len(uses_of(module, name)) > _MAX_QUALIFIED_USES for name in paths):
            continue
        full_names = [put_value(name, cst.parse_expression(path)) for name, path in paths.items()]
        yield from applied(module, Changes({line: []}), *full_names)


def _paths(node: cst.BaseSmallStatement) -> dict[str, str]:
    """Return {name: dotted path} of `from a import b` or `import a as b`.

    Empty for any other statement, and for a star or relative import.
    """
    if isinstance(node, cst.ImportFrom):
        if isinstance(node.names, cst.ImportStar) or node.relative or node.module is None:
            return {}
        module = dotted(node.module)
        return {a.evaluated_alias or a.evaluated_name: f"{module}.{a.evaluated_name}" for a in node.names}
    if isinstance(node, cst.Import) and all(alias.asname is not None for alias in node.names):
        return {alias.evaluated_alias or "": alias.evaluated_name for alias in node.names}
    return {}


def with_modules(module: cst.Module, folders: Sequence[str]) -> Iterator[Edited]:
    """Yield, for each import of a module in these folders, the script with that import replaced by definitions.

    Imports that cannot be replaced are skipped.
    """
    for line, statement in _Imports(module).lines:
        name = _module_name(statement)
        path = next((p for folder in folders if (p := _file(folder, name)) is not None), None)
        if path is None:
            continue
        try:
            inlined = _inlined(module, line, statement, path.read_text(encoding="utf-8"))
        except (OSError, ValueError, cst.ParserSyntaxError):
            continue
        if inlined is not None:
            yield inlined


class _Imports(cst.CSTVisitor):
    """Collects the lines that consist of a single import statement."""

    def __init__(self, module: cst.Module) -> None:
        self.lines: list[tuple[cst.SimpleStatementLine, cst.Import | cst.ImportFrom]] = []
        module.visit(self)

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        if len(node.body) == 1 and isinstance(node.body[0], (cst.Import, cst.ImportFrom)):
            self.lines.append((node, node.body[0]))


def _module_name(statement: cst.Import | cst.ImportFrom) -> str:
    """Return the imported module's name; empty for several modules or a relative import."""
    if isinstance(statement, cst.ImportFrom):
        return "" if statement.relative or statement.module is None else dotted(statement.module)
    return dotted(statement.names[0].name) if len(statement.names) == 1 else ""


def _file(folder: str, name: str) -> Path | None:
    if not name:
        return None
    path = Path(folder, *name.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _inlined(
    module: cst.Module, line: cst.SimpleStatementLine, statement: cst.Import | cst.ImportFrom, source: str
) -> cst.Module | None:
    """Return the module with definitions from `source` in place of the line.

    None if names would clash, or the definitions lack a used name.
    """
    bound = names_bound(source)
    rest = module
    if isinstance(statement, cst.Import):
        alias = statement.names[0]
        local = dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name)
        uses = uses_of(module, local)
        found = m.findall(module, m.Attribute(value=m.Name(local)))
        attributes = [node for node in found if isinstance(node, cst.Attribute) and node.value in uses]
        local_names = {node.attr.value: node.attr.value for node in attributes}
        if "." in local or len(uses) > len(attributes) or not local_names.keys() <= bound:
            return None
        changes: dict[cst.CSTNode, list[cst.CSTNode]] = {
            node: [node.attr.with_changes(lpar=node.lpar, rpar=node.rpar)] for node in attributes
        }
        rest = module.visit(Changes(changes))
        assert isinstance(rest, cst.Module)
        lines = zip(_Imports(module).lines, _Imports(rest).lines, strict=True)
        line = next(new for (old, _), (new, _) in lines if old is line)
    elif isinstance(statement.names, cst.ImportStar):
        local_names = {name: name for name in _names_in(module) & bound}
    else:
        local_names = {alias.evaluated_name: alias.evaluated_alias or alias.evaluated_name for alias in statement.names}
        if not set(local_names) <= bound:
            return None
    text = slice_module(source, Wanted(sorted(local_names)))
    aliases = [f"{local} = {name}" for name, local in local_names.items() if local != name]
    definitions = cst.parse_module(text + "\n".join(aliases) or "pass")
    imports = {name for s in ModuleStatements(text).statements for name in s.imports}  # twice is no clash
    reserved = names_bound(module.code) - set(local_names.values()) - imports
    if reserved & names_bound(definitions.code):
        return None
    inlined = rest.visit(Changes({line: list(definitions.body)}))
    assert isinstance(inlined, cst.Module)
    return inlined


def _names_in(module: cst.Module) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(module.code)) if isinstance(node, ast.Name)}
