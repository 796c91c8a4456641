"""Write an object as source: an expression that makes or names the object, and the needed imports."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import functools
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from minifier.data.case.literals import OF_SCRIPT, imported_paths, literal, module_of
from minifier.data.case.values import SourceExpression
from minifier.data.torch_names import AOT_BACKEND, AOT_BACKEND_IMPORT
from minifier.errors import CannotSave
from minifier.torch_side.fx.arguments import path_of, read
from minifier.torch_side.fx.script_objects import home_of, in_modules, in_script, tree_of_script
from minifier.torch_side.torch_private.dynamo import aot_autograd_arguments

MINIFY_ATTRIBUTE = "__minify__"  # with it an object gives its own source
# Names that a script reads files, its arguments or the environment by.
_READS = {"open", "read_text", "read_bytes", "argv", "environ", "getenv", "parse_args", "parse_known_args"}
_NO_INSTANCES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def write_object(value: Any, *, part: bool = False) -> SourceExpression:
    """Return the source of a callable, or with `part`, of an argument or option.

    Raises CannotSave, with the reason, if the value has no source.
    """
    own_source = from_own_attribute(value)
    if own_source is not None:
        return own_source
    arguments = aot_autograd_arguments(value)
    if isinstance(value, functools.partial) or arguments is not None:
        return importable(value) or _from_call(value, arguments)
    if isinstance(value, types.MethodType):
        instance = value.__self__
        owner = importable(instance) or in_script_source(instance) or write_object(instance, part=part)
        return SourceExpression(f"{owner.expression}.{value.__name__}", owner.imports, owner.names)
    if part and (data := _from_data(value)) is not None:
        return data
    if not part and not callable(value):
        return SourceExpression(literal(read(value)))
    source = importable(value) or in_script_source(value)
    if source is None or any(map(_is_of_read_data, source.names)):
        source = _from_closure(value) or _from_attributes(value) or source
    if source is None:
        raise CannotSave(_why_not(value))
    return source


def option(value: Any) -> Any:
    """Return an option or a configuration value as constants and containers; other objects become expressions."""
    if type(value) is dict:
        return {option(key): option(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(option, value))
    try:
        return write_object(value, part=True) if isinstance(value, enum.Enum) else read(value)
    except CannotSave:
        return write_object(value, part=True)


def from_own_attribute(value: Any) -> SourceExpression | None:
    """Return the source that the object's `__minify__` gives; None without this attribute, and for classes.

    `__minify__` is (import lines, expression), or a callable that returns this pair. Raises CannotSave if
    `__minify__` has another form or raises.
    """
    own_source = inspect.getattr_static(value, MINIFY_ATTRIBUTE, None)
    if own_source is None or isinstance(value, type):
        return None
    own_source = getattr(value, MINIFY_ATTRIBUTE)
    try:
        own_source = own_source() if callable(own_source) else own_source
    except Exception as error:
        raise CannotSave(f"the {MINIFY_ATTRIBUTE} of {_name(value)} raises {type(error).__name__}: {error}") from error
    wrong = (
        f"the {MINIFY_ATTRIBUTE} of {_name(value)} is to be, or to return, "
        f"(a list of import lines, an expression), not {own_source!r}"
    )
    if not (isinstance(own_source, (tuple, list)) and len(own_source) == 2 and isinstance(own_source[1], str)):
        raise CannotSave(wrong)
    lines, expression = own_source
    try:
        imports = [ast.parse(line).body for line in lines]
        ast.parse(expression, mode="eval")
    except (SyntaxError, TypeError, ValueError):
        raise CannotSave(wrong) from None
    if not all(len(body) == 1 and isinstance(body[0], (ast.Import, ast.ImportFrom)) for body in imports):
        raise CannotSave(wrong)
    return SourceExpression(expression, tuple(lines))


def _from_data(value: Any) -> SourceExpression | None:
    """Return the source of a constant, an enum's member, or a dict, list or tuple of any values; else None."""
    if isinstance(value, enum.Enum):
        owner = importable(type(value)) or in_script_source(type(value))
        return None if owner is None else _fill_in(f"{{}}.{value.name}", [owner])
    with contextlib.suppress(CannotSave):
        if not callable(value):
            constant = read(value)
            paths = [path for path in imported_paths(constant) if not path.startswith(OF_SCRIPT)]
            return SourceExpression(literal(constant), tuple(f"import {module_of(path)}" for path in paths))
    if type(value) is dict:
        parts = [write_object(key_or_value, part=True) for item in value.items() for key_or_value in item]
        return _fill_in("{{" + ", ".join(["{}: {}"] * len(value)) + "}}", parts)
    if type(value) in (list, tuple):
        inner = ", ".join(["{}"] * len(value)) + ("," if type(value) is tuple and len(value) == 1 else "")
        text = f"[{inner}]" if type(value) is list else f"({inner})"
        return _fill_in(text, [write_object(item, part=True) for item in value])
    return None


def _from_call(value: Any, arguments: dict[str, Any] | None) -> SourceExpression:
    """Return the call that makes a `functools.partial`, or with `arguments` an `aot_autograd(...)`.

    If an argument has no source, return the script's own name for the object.
    """
    try:
        if arguments is not None:
            return _call(SourceExpression(AOT_BACKEND, (AOT_BACKEND_IMPORT,)), [], arguments)
        partial = SourceExpression("functools.partial", ("import functools",))
        return _call(partial, [value.func, *value.args], value.keywords)
    except CannotSave:
        name = in_script_source(value)
        if name is None:
            raise
        return name


def _call(function: SourceExpression, args: Sequence[Any], kwargs: Mapping[str, Any]) -> SourceExpression:
    texts = ["{}"] * len(args) + [f"{name}={{}}" for name in kwargs]
    parts = [write_object(arg, part=True) for arg in (*args, *kwargs.values())]
    return _fill_in(f"{{}}({', '.join(texts)})", [function, *parts])


def _from_attributes(value: Any) -> SourceExpression | None:
    """Return a call of an instance's class, with arguments from the attributes `x` or `_x` for parameter `x`.

    None if the class has no source, or an attribute is missing.
    """
    kind = type(value)
    class_source = None if isinstance(value, _NO_INSTANCES) else importable(kind) or in_script_source(kind)
    if class_source is None:
        return None
    attributes = {**getattr(value, "__dict__", {}), **{f: getattr(value, f) for f in getattr(kind, "_fields", ())}}
    if not (attributes or hasattr(value, "__dict__") or is_dataclass(value)):
        return None  # an iterator, say: its state cannot be read
    attributes |= {f.name: getattr(value, f.name) for f in dataclasses.fields(value)} if is_dataclass(value) else {}
    known = {name.removeprefix("_"): item for name, item in attributes.items()}
    arguments = _arguments(kind, known)
    return None if arguments is None else _call(class_source, [], arguments)


def _from_closure(value: Any) -> SourceExpression | None:
    """Return a call of the factory that made the function, if the closure holds the arguments; else None."""
    factory, _, inner_name = getattr(value, "__qualname__", "").partition(".<locals>.")
    outer = getattr(sys.modules.get(home_of(value)), factory, None)
    if not isinstance(value, types.FunctionType) or not isinstance(outer, types.FunctionType):
        return None
    if not inner_name or ".<locals>." in inner_name or not _may_return(outer, inner_name):
        return None  # a nested factory; one that changes its arguments; a `main` that has effects
    source = importable(outer) or in_script_source(outer)
    arguments = _arguments(outer, dict(inspect.getclosurevars(value).nonlocals))
    return None if source is None or arguments is None else _call(source, [], arguments)


def _fill_in(text: str, parts: Sequence[SourceExpression]) -> SourceExpression:
    """Return `text` with its {} replaced by the parts, and the parts' imports and names."""
    lines = dict.fromkeys(line for part in parts for line in part.imports)
    names = dict.fromkeys(name for part in parts for name in part.names)
    return SourceExpression(text.format(*(part.expression for part in parts)), tuple(lines), tuple(names))


def _may_return(outer: types.FunctionType, name: str) -> bool:
    """Whether the source of a function has a `return` with its inner function `name`, and changes no argument."""
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(outer)))))[2:]  # without the function itself
    except (OSError, SyntaxError):
        return False
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    inner = {part for node in nodes if isinstance(node, ast.FunctionDef) for part in ast.walk(node)}
    values = [node.value for node in nodes if isinstance(node, ast.Return) and node.value and node not in inner]
    parts = [part for value in values for part in ast.walk(value) if isinstance(part, (ast.Name, ast.Lambda))]
    # A lambda has no name of its own: any returned variable may have it.
    may_return = any(name in ("<lambda>", getattr(part, "id", "")) for part in parts)
    return may_return and stored.isdisjoint(inspect.signature(outer).parameters)


def _arguments(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the keyword arguments of a call from the known values.

    None if a required argument is missing, or the parameters are unknown or cannot all be given by keyword.
    """
    arguments: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return None
        if parameter.name in known:
            if known[parameter.name] is not parameter.default:
                arguments[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty:
            return None
    return arguments


def first_name(expression: str) -> str:
    """Return the first name of an expression like `TABLE["a"]`."""
    match = re.match(r"\w+", expression)
    assert match is not None
    return match.group()


def importable(value: Any) -> SourceExpression | None:
    """Return `from module import name`, if a module other than the script holds the object; a path for torch's own."""
    held = in_modules(value)
    if held is None:
        with contextlib.suppress(CannotSave):
            if (path := path_of(value)).startswith("torch."):
                return SourceExpression(path, ("import torch",))
        return None
    module, name = held
    return SourceExpression(name, (f"from {module} import {name.partition('.')[0]}",))


def in_script_source(value: Any) -> SourceExpression | None:
    """Return the script's own expression for the object, or None."""
    expression = in_script(value)
    return None if expression is None else SourceExpression(expression, names=(first_name(expression),))


def _is_of_read_data(name: str) -> bool:
    """Whether the script makes this variable of a file, its arguments or the environment."""
    tree, wanted = tree_of_script(), {name}
    for statement in reversed(tree.body if tree is not None else []):
        nodes = list(ast.walk(statement))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        binds = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {getattr(statement, "name", "")}
        if isinstance(statement, ast.ClassDef) or binds.isdisjoint(wanted):
            continue
        if any(getattr(node, "id", getattr(node, "attr", "")) in _READS for node in nodes):
            return True
        wanted |= {node.id for node in names}
    return False


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", None) or f"an instance of {type(value).__qualname__}"


def _why_not(value: Any) -> str:
    home, name = home_of(value), _name(value)
    if name.endswith("<lambda>"):
        return f"it is a lambda of {home}, which no import statement reaches"
    if "<locals>" in name:
        return f"it is {name} of {home}, made inside a function, which no import statement reaches"
    return f"{name} of {home} is not held under a name of any module"
