"""The private names of torch that stand in texts: each is in the installed torch, and all stand in one place."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import minifier
from minifier.data.torch_names import PRIVATE_NAMES, NameKind
from minifier.torch_side.fx.arguments import resolve
from minifier.torch_side.interfaces import TORCH, Interface, InterfaceState
from minifier.torch_side.torch_private.declared import INTERFACES

MINIFIER = Path(minifier.__file__).parent
FORMS = sorted((MINIFIER.parent / "repro_templates").glob("*.py"))
# Where such a text may stand: the names themselves, and a file that runs in interpreters without the tool.
OWN_PLACES = {"data/torch_names.py", "repro/verify/_sitecustomize.py"}
PRIVATE = re.compile(r"\btorch(?:\.\w+)*\._[a-z]\w*(?:\.\w+)*|\b_(?:dynamo|inductor|functorch|torchdynamo)_?\w*")


def id_of(known):
    return f"{known.modules[0]}:{known.name}".rstrip(":")


def is_in(known, module):
    """Whether the module has the name, as the kind of the name says."""
    try:
        found = resolve(f"{module}.{known.name}".rstrip("."))
    except AttributeError:
        return known.kind is not NameKind.NAME and text_of(known) in inspect.getsource(importlib.import_module(module))
    return found is not None or known.kind is NameKind.NAME  # a configuration value may be None


def text_of(known):
    return f"def {known.name}(" if known.kind is NameKind.FUNCTION else known.name


@pytest.mark.parametrize("known", PRIVATE_NAMES, ids=id_of)
def test_this_torch_has_the_name(known):
    if not known.since <= TORCH <= known.until:
        pytest.skip(f"torch has it from {known.since} to {known.until}")
    assert any(is_in(known, module) for module in known.modules)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(MINIFIER.rglob("*.py")):
        yield str(path.relative_to(MINIFIER)), ast.parse(path.read_text(encoding="utf-8"))


def texts(tree):
    """The texts of a module, without docstrings."""
    bodies = (node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)))
    firsts = (body.body[0] for body in bodies if body.body)
    docstrings = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_all_private_names_in_texts_stand_in_one_place():
    places = {place for interface in INTERFACES for place in interface.places}
    of_declared = places | {place.partition(":")[0] for place in places}
    found = {
        f"{file}: {match[0]}"
        for file, tree in trees()
        if file not in OWN_PLACES
        for text in texts(tree)
        for match in PRIVATE.finditer(text)
        if not (
            file.startswith("torch_side/torch_private/") and any(place.startswith(match[0]) for place in of_declared)
        )
    }
    assert found == set()


@pytest.mark.parametrize("file", sorted(OWN_PLACES - {"data/torch_names.py"}))
def test_the_texts_of_a_file_without_the_tool_are_names_of_torch(file):
    (tree,) = (tree for name, tree in trees() if name == file)
    found = [match[0] for text in texts(tree) for match in PRIVATE.finditer(text)]
    assert found and all(importlib.import_module(name) for name in found)


@pytest.mark.parametrize("template", FORMS, ids=lambda path: path.stem)
def test_the_private_names_of_a_form_exist(template):
    tree = ast.parse(template.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("torch")]
    places = [f"{node.module}:{alias.name}" for node in imports for alias in node.names]
    attributes = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    places += [f"torch:{name.removeprefix('torch.')}" for name in attributes if name.startswith("torch._")]
    assert {place: Interface((place,), "").state(load=True) for place in places} == dict.fromkeys(
        places, InterfaceState.WORKS
    )


def private_attributes(tree):
    """Private attributes that a file reads of other objects than its own, and private keywords of no call."""
    own = {target.attr for node in ast.walk(tree) for target in targets(node)} | {
        node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    for node in ast.walk(tree):
        is_private = isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr)
        if is_private and node.attr not in own and ast.unparse(node.value) != "sys":
            yield node.attr


def targets(node):
    """The attributes of `self` that a statement sets."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in ast.walk(ast.Tuple(node.targets) if isinstance(node, ast.Assign) else node.target):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target


def test_every_private_attribute_that_is_read_of_torch_is_declared():
    """Or it is imported by its name; without `self`, a private name is another's."""
    known = {place.rpartition(".")[2].rpartition(":")[2] for i in INTERFACES for place in i.places}
    read = {
        f"{file}: {name}"
        for file, tree in trees()
        if file.startswith("torch_side/torch_private/")
        for name in private_attributes(tree)
        if name not in known
    }
    assert read == set()
