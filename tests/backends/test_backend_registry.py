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


def test_the_installed_fault_does_not_register_the_others(facts):
    assert facts("""
lookup_backend("faulty_installed")
facts = [sorted(name for name in registry._COMPILER_FNS if "faulty" in name)]
""") == [["faulty_installed"]]


def test_every_name_is_known_once_its_module_is_imported(facts):
    (known,) = facts("""
import minifier_backends.faulty, minifier_backends.speedy, minifier_backends.table
facts.append(list_backends(None))
""")
    assert {"table", "speedy", *faulty.__all__, *ENTRY_POINTS} <= set(known)


def test_tags_hide_backends_from_the_list(facts):
    ordinary, without_debug, without_experimental, everything = facts("""
import minifier_backends.faulty, minifier_backends.speedy, minifier_backends.table
for tags in ((("debug", "experimental"),), (("debug",),), (("experimental",),), (None,)):
    facts.append(list_backends(*tags))
assert list_backends() == facts[0]
assert lookup_backend("table")._tags == ("debug",)
assert lookup_backend("speedy")._tags == ("experimental",)
""")
    ours = {"table", "speedy", *faulty.__all__}
    assert ours & set(ordinary) == set()
    assert ours & set(without_debug) == {"speedy"}
    assert ours & set(without_experimental) == {"table", *faulty.__all__}
    assert ours <= set(everything)
    assert set(ordinary) >= ENTRY_POINTS


def test_a_hidden_backend_still_works_by_name(facts):
    assert facts("""
import minifier_backends.speedy
facts.append(torch.compile(torch.neg, backend="speedy")(torch.ones(2)).tolist())
""") == [[-1.0, -1.0]]


@pytest.mark.parametrize("name", ["faulty_raise", "speedy", "table", "no_such_backend"])
def test_a_name_whose_module_was_not_imported_is_invalid(facts, name):
    (error,) = facts(f"""
facts.append(error_of(lambda: torch.compile(torch.neg, backend={name!r})))
""")
    assert error.startswith(f"InvalidBackend: Invalid backend: {name!r}, see `torch._dynamo.list_backends()`")


def test_a_name_can_be_registered_once_only(facts):
    duplicate, unchanged, renamed = facts("""
import minifier_backends.table
def other(gm, example_inputs):
    return gm.forward
facts.append(error_of(lambda: register_backend(other, name="table")))
facts.append(lookup_backend("table") is minifier_backends.table.table)
register_backend(other, name="another_table")
facts.append(lookup_backend("another_table") is other)
""")
    assert duplicate == "AssertionError: duplicate name: table"
    assert unchanged and renamed


PLUGIN = """
from torch._dynamo import register_backend

@register_backend(name="plugin", tags=("debug",))
def plugin(gm, example_inputs):
    return gm.forward
"""


@pytest.fixture
def plugin(tmp_path):
    """A distribution whose entry point's module makes the mistake of registering the same name itself."""
    (tmp_path / "plugin_module.py").write_text(PLUGIN)
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\nplugin = plugin_module:plugin\n")
    return tmp_path


def test_an_entry_point_that_registers_itself_fails_at_first_and_works_later(facts, plugin):
    first, second = facts(
        """
facts.append(error_of(lambda: lookup_backend("plugin")))
facts.append(error_of(lambda: lookup_backend("plugin")))
""",
        path=plugin,
    )
    assert (first, second) == ("AssertionError: duplicate name: plugin", None)


def test_loading_an_entry_point_takes_the_tags_away(facts, plugin):
    (plugin / "plugin_module.py").write_text(PLUGIN.replace('name="plugin"', 'name="plugin_by_import"'))
    before, after = facts(
        """
import plugin_module

facts.append("plugin_by_import" in list_backends())
lookup_backend("plugin")
facts.append("plugin_by_import" in list_backends())
""",
        path=plugin,
    )
    assert (before, after) == (False, True)
