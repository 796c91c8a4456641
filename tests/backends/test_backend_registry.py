"""How torch finds these backends: entry points, imports, tags, duplicate names, unknown names.

The registry is one per process, and cannot forget; so each test has a process of its own.
"""

import json

import pytest
from minifier_backends import faulty

ENTRY_POINTS = {"reference_aot", "first_available", "faulty_installed"}

HEAD = """
import json, sys, torch
from torch._dynamo.backends import registry
from torch._dynamo import list_backends, lookup_backend, register_backend

def modules():
    return sorted(name for name in sys.modules if name.startswith("minifier_backends."))

def error_of(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture
def facts(run_python):
    """Runs some lines that fill the list `facts`, and gives the list."""

    def run(lines, **kwargs):
        done = run_python("-c", f"{HEAD}\nfacts = []\n{lines}\nprint(json.dumps(facts))", **kwargs)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_importing_the_package_registers_and_loads_nothing(facts):
    compiled, known, loaded = facts("""
import minifier_backends
facts = [sorted(registry._COMPILER_FNS), list_backends(None), modules()]
""")
    assert not {name for name in compiled if name.startswith("faulty") or name in ENTRY_POINTS}
    assert set(known) >= ENTRY_POINTS
    assert not {"table", "speedy", *faulty.__all__} & set(known)
    assert loaded == []


def test_an_entry_point_is_loaded_when_its_name_is_asked_for(facts):
    before, name, after, again, others = facts("""
list_backends(None)
facts.append("reference_aot" in registry._COMPILER_FNS)
backend = lookup_backend("reference_aot")
facts.append(f"{backend.__module__}.{backend.__qualname__}")
facts.append("reference_aot" in registry._COMPILER_FNS)
facts.append(lookup_backend("reference_aot") is backend)
facts.append(modules())
""")
    assert (before, name, after, again) == (False, "minifier_backends.aot.reference_aot", True, True)
    assert others == ["minifier_backends.aot", "minifier_backends.graphs", "minifier_backends.settings"]


def test_a_name_whose_module_was_not_imported_is_invalid(facts):
    (error,) = facts("""
facts.append(error_of(lambda: torch.compile(torch.neg, backend="table")))
""")
    assert error.startswith("InvalidBackend: ")
