"""Slices of generated modules: what is sliced out behaves as in the whole, and nothing is in it that could go."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from minifier.capturing.slicing.module_statements import ModuleStatements
from minifier.capturing.slicing.slices import Wanted, slice_module

NAMES = [f"n{i}" for i in range(8)]


@st.composite
def modules(draw):
    """(source, names it binds). Each statement binds one name, from names that were bound before; some change those."""
    lines = ["import math", "import operator as op"]
    bound = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=2, max_size=8)):
        one, two = (draw(st.sampled_from(bound)) if bound else "1" for _ in range(2))
        value = f"value({one})"
        match draw(st.integers(0, 7)):
            case 0:
                lines += [f"{name} = [{one}, 2]", f"{name}.append(value({two}))"]
            case 1:
                lines += [f"def {name}(x=2):", f"    return op.add({value}, x)"]
            case 2:
                lines += [f"class {name}:", f"    held = {one}", f"    def __call__(self): return {value}"]
            case 3:
                lines += [f"if value({one}) > 3:", f"    {name} = {two}", "else:", f"    {name} = {one}"]
            case 4:
                lines += ["try:", f"    {name} = missing", "except NameError:", f"    {name} = {value}"]
            case 5:
                lines += [f"{name} = lambda: math.floor({value})"]
            case 6:
                lines += [f"{name} = {{}}", f"{name}['key'] = {one}", f"for i in range(2): {name}[i] = {two}"]
            case _:
                lines += [f"{name} = {value} + 1", f"{name} += value({two})"]
        bound.append(name)
        if draw(st.booleans()):
            lines.append(f"print(value({name}))")
    return "\n".join([*lines, ""]), bound


def value(item):
    """A number that tells how an object behaves."""
    if isinstance(item, type):
        return value(item())
    if callable(item):
        return value(item())
    if isinstance(item, dict):
        return value(list(item.values()))
    if isinstance(item, list):
        return sum(map(value, item)) + len(item)
    return item


def run(source, name):
    names = {"value": value, "print": lambda _: None}
    exec(compile(source, "module", "exec"), names)
    return value(names[name])


@given(modules(), st.data())
def test_a_slice_behaves_as_the_whole_and_holds_nothing_unneeded(module, data):
    """Each of its statements is there for another one or for what is wanted."""
    source, bound = module
    name = data.draw(st.sampled_from(bound))
    found = slice_module(source, Wanted([name]))
    expected = run(source, name)
    assert run(found, name) == expected
    assert "print" not in found
    assert slice_module(found, Wanted([name])) == found
    needed = {name}
    for statement in reversed(ModuleStatements(found).statements):
        assert statement.binds & needed or statement.changes & needed, f"{found}\nwhat is this for: {statement}"
        needed |= statement.reads
    assert len(ast.parse(found).body) <= len(ast.parse(source).body)
