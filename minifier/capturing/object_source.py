"""An object as source: the expression that makes it or gets at it, and what has to be imported for that."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import dis
import enum
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from minifier.case.literals import OF_SCRIPT, SCRIPT, imported_paths, literal, module_of
from minifier.case.values import SourceExpression
from minifier.errors import CannotSave
from minifier.fx.node_arguments import read
from minifier.fx.script_definitions import expression_in_script
from minifier.torch_private import aot_autograd_arguments

TOLD = "__minify__"  # by which an object says how it is written down
_NO_INSTANCES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def write_object(value: Any, *, part: bool = False) -> SourceExpression:
    """A callable as source, or (`part`) an argument or option of one; raises CannotSave saying what is in the way."""
    found = as_told(value)
    if found is not None:
        return found
    arguments = aot_autograd_arguments(value)
    if isinstance(value, functools.partial) or arguments is not None:
        return _importable(value) or _as_made(value, arguments)
    if isinstance(value, types.MethodType):
        owner = _importable(value.__self__) or _in_script(value.__self__) or write_object(value.__self__, part=part)
        return SourceExpression(f"{owner.expression}.{value.__name__}", owner.imports, owner.names)
    if part and (plain := _plain(value)) is not None:
        return plain
    if not part and not callable(value):
        return SourceExpression(literal(read(value)))
    found = _importable(value) or _in_script(value) or _from_closure(value) or _from_attributes(value)
    if found is None:
        raise CannotSave(_why_not(value))
    return found


def option(value: Any) -> Any:
    """An option of the backend as plain data, in which objects that have no such form are expressions."""
    if type(value) is dict:
        return {option(key): option(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(option, value))
    try:
        return write_object(value, part=True) if isinstance(value, enum.Enum) else read(value)
    except CannotSave:
        return write_object(value, part=True)


def as_told(value: Any) -> SourceExpression | None:
    """What the object itself says: `__minify__`, or what that returns, is (import lines, expression). Raises CannotSave
    if it is something else."""
    told = inspect.getattr_static(value, TOLD, None)
    if told is None or isinstance(value, type):
        return None
    told = getattr(value, TOLD)
    try:
        told = told() if callable(told) else told
    except Exception as error:
        raise CannotSave(f"the {TOLD} of {_name(value)} raises {type(error).__name__}: {error}") from error
    wrong = (
        f"the {TOLD} of {_name(value)} is to be, or to return, (a list of import lines, an expression), not {told!r}"
    )
    if not (isinstance(told, (tuple, list)) and len(told) == 2 and isinstance(told[1], str)):
        raise CannotSave(wrong)
    lines, expression = told
    try:
        imports = [ast.parse(line).body for line in lines]
        ast.parse(expression, mode="eval")
    except (SyntaxError, TypeError, ValueError):
        raise CannotSave(wrong) from None
    if not all(len(body) == 1 and isinstance(body[0], (ast.Import, ast.ImportFrom)) for body in imports):
        raise CannotSave(wrong)
    return SourceExpression(expression, tuple(lines))


def _plain(value: Any) -> SourceExpression | None:
    """Plain data, alone or in containers that hold objects; None for an object."""
    if isinstance(value, enum.Enum):
        owner = _importable(type(value)) or _in_script(type(value))
        return None if owner is None else _made_with(f"{{}}.{value.name}", [owner])
    with contextlib.suppress(CannotSave):
        if not callable(value):
            plain = read(value)
            paths = [path for path in imported_paths(plain) if not path.startswith(OF_SCRIPT)]
            return SourceExpression(literal(plain), tuple(f"import {module_of(path)}" for path in paths))
    if type(value) is dict:
        parts = [write_object(each, part=True) for item in value.items() for each in item]
        return _made_with("{{" + ", ".join(["{}: {}"] * len(value)) + "}}", parts)
    if type(value) in (list, tuple):
        inner = ", ".join(["{}"] * len(value)) + ("," if type(value) is tuple and len(value) == 1 else "")
        text = f"[{inner}]" if type(value) is list else f"({inner})"
        return _made_with(text, [write_object(each, part=True) for each in value])
    return None


def _made_with(text: str, parts: Sequence[SourceExpression], *imports: str) -> SourceExpression:
    """`text` with the parts in the places of its {}."""
    lines = dict.fromkeys([*imports, *(line for part in parts for line in part.imports)])
    names = dict.fromkeys(name for part in parts for name in part.names)
    return SourceExpression(text.format(*(part.expression for part in parts)), tuple(lines), tuple(names))


def _as_made(value: Any, arguments: dict[str, Any] | None) -> SourceExpression:
    """The call that makes such a partial, or such an `aot_autograd(...)`; the script's own name for it where something
    in the call cannot be written."""
    try:
        if arguments is not None:
            line = "from torch._dynamo.backends.common import aot_autograd"
            return _call(SourceExpression("aot_autograd", (line,)), [], arguments)
        made = SourceExpression("functools.partial", ("import functools",))
        return _call(made, [value.func, *value.args], value.keywords)
    except CannotSave:
        held = _in_script(value)
        if held is None:
            raise
        return held


def _call(function: SourceExpression, args: Sequence[Any], kwargs: Mapping[str, Any]) -> SourceExpression:
    texts = ["{}"] * len(args) + [f"{name}={{}}" for name in kwargs]
    parts = [write_object(arg, part=True) for arg in (*args, *kwargs.values())]
    return _made_with(f"{{}}({', '.join(texts)})", [function, *parts])


def _from_attributes(value: Any) -> SourceExpression | None:
    """An instance as a call of its class, whose arguments it keeps under their own names (or with a `_` before them);
    None where it does not."""
    kind = type(value)
    held = None if isinstance(value, _NO_INSTANCES) else _importable(kind) or _in_script(kind)
    if held is None:
        return None
    attributes = {**getattr(value, "__dict__", {}), **{f: getattr(value, f) for f in getattr(kind, "_fields", ())}}
    attributes |= {f.name: getattr(value, f.name) for f in dataclasses.fields(value)} if is_dataclass(value) else {}
    arguments = _arguments(kind, {name.removeprefix("_"): each for name, each in attributes.items()})
    return None if arguments is None else _call(held, [], arguments)


def _from_closure(value: Any) -> SourceExpression | None:
    """What a factory has made: a call of it, if the function that it gave back holds its arguments; else None."""
    factory, _, rest = getattr(value, "__qualname__", "").partition(".<locals>.")
    outer = getattr(sys.modules.get(_home(value)), factory, None)
    if not isinstance(value, types.FunctionType) or not isinstance(outer, types.FunctionType):
        return None
    stored = {each.argval for each in dis.get_instructions(outer) if each.opname.startswith("STORE")}
    if not rest or ".<locals>." in rest or stored & set(inspect.signature(outer).parameters):
        return None  # it was made by what the factory made, or the factory has changed its arguments
    if not _may_return(outer, rest):
        return None  # a `main` that makes a backend for itself; who knows what else it does
    held = _importable(outer) or _in_script(outer)
    arguments = _arguments(outer, dict(inspect.getclosurevars(value).nonlocals))
    return None if held is None or arguments is None else _call(held, [], arguments)


def _may_return(outer: types.FunctionType, name: str) -> bool:
    """Whether a function may give back what it defines under this name: it returns that, or what a call gives it."""
    before: dis.Instruction | None = None
    for each in dis.get_instructions(outer):
        if each.opname == "RETURN_VALUE" and before is not None and before.opname != "LOAD_CONST":
            plain = before.opname.startswith(("LOAD_FAST", "LOAD_DEREF"))
            if not plain or name in (before.argval, "<lambda>"):
                return True
        before = each
    return False


def _arguments(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call, from what has the names of its parameters; None if one that is needed is missing."""
    found: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            return None
        if parameter.name in known:
            if known[parameter.name] is not parameter.default:
                found[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty:
            return None
    return found


def first_name(expression: str) -> str:
    """The name that an expression like `TABLE["a"]` begins with."""
    found = re.match(r"\w+", expression)
    assert found is not None
    return found.group()


def _importable(value: Any) -> SourceExpression | None:
    """`from module import name`, if a module other than the script holds the object, or the class it is an
    attribute of, under a plain name."""
    home, name = _home(value), getattr(value, "__qualname__", None) or ""
    if home != SCRIPT and name.replace(".", "").isidentifier():
        try:
            found = functools.reduce(getattr, name.split("."), sys.modules.get(home))
        except AttributeError:
            found = None
        if found is value:
            return SourceExpression(name, (f"from {home} import {name.partition('.')[0]}",))
    for module_name, module in sorted(
        sys.modules.items(), key=lambda item: (item[0] != home, item[0].count("."), item[0])
    ):
        if module_name.partition(".")[0] in (SCRIPT, "__mp_main__", "torch", "minifier"):
            continue
        for attribute, held in list(getattr(module, "__dict__", {}).items()):
            if held is value and attribute.isidentifier():
                return SourceExpression(attribute, (f"from {module_name} import {attribute}",))
    return None


def _in_script(value: Any) -> SourceExpression | None:
    """How the script itself holds the object, if it does."""
    held = expression_in_script(value)
    return None if held is None else SourceExpression(held, names=(first_name(held),))


def _home(value: Any) -> str:
    return getattr(value, "__module__", None) or type(value).__module__


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", None) or f"an instance of {type(value).__qualname__}"


def _why_not(value: Any) -> str:
    home, name = _home(value), _name(value)
    if name.endswith("<lambda>"):
        return f"it is a lambda of {home}, which no import statement reaches"
    if "<locals>" in name:
        return f"it is {name} of {home}, made inside a function, which no import statement reaches"
    return f"{name} of {home} is not held under a name of any module"
