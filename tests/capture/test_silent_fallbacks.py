"""Backends that quietly leave a graph to others: told, though nothing failed."""

import contextlib
import logging
import sys
import types
import warnings

import pytest
from capture_looks import looked

from minifier.failure import Kind
from minifier.process.caught import CallWatch

LIBRARY = """
import logging

log = logging.getLogger(__name__)

def fails():
    raise ValueError("no such tile\\nand more")

def catches():
    try:
        fails()
    except ValueError as error:
        log.debug("gave up: %s", error.args[0][:12])
        log.info("%d and %d", 1)

def calls_back(others):
    return others(fails)

def catches_from_others(others):
    try:
        return others(fails)
    except ValueError:
        return None

class Lazy:
    def __getattr__(self, name):
        raise AttributeError(name)

def looks():
    return hasattr(Lazy(), "kernel"), list(map(str, iter(range(3))))
"""


@pytest.fixture
def library():
    module = types.ModuleType("acme_library")
    exec(LIBRARY, module.__dict__)
    sys.modules["acme_library"] = module
    yield module
    del sys.modules["acme_library"]


def watched(call):
    watch = CallWatch({"acme_library"}, lambda: passes_on.__code__)
    tracing = sys.gettrace()
    sys.settrace(None)  # coverage's, say
    try:
        with watch:
            call()
        assert sys.gettrace() is None
    finally:
        sys.settrace(tracing)
    return watch


def passes_on(call):
    return call()


def swallows(call):
    with contextlib.suppress(ValueError):
        call()


def test_exceptions_that_the_library_catches(library):
    assert watched(library.catches).caught == ["ValueError: no such tile and more"]
    assert watched(lambda: library.catches_from_others(passes_on)).caught == ["ValueError: no such tile and more"]


def test_exceptions_that_others_catch(library):
    assert watched(lambda: library.calls_back(swallows)).caught == []
    assert watched(library.looks).caught == []
    with pytest.raises(ValueError, match="tile"):
        watched(lambda: library.calls_back(passes_on))


def test_records_below_the_level_of_their_logger(library, caplog):
    watch = watched(library.catches)
    assert watch.logged == ["DEBUG acme_library: gave up: no such tile", "INFO acme_library: %d and %d"]
    assert caplog.records == []
    with caplog.at_level(logging.DEBUG, "acme_library"):
        assert watched(lambda: library.log.debug("heard anyway")).logged == []
    (record,) = caplog.records
    assert (record.message, record.funcName) == ("heard anyway", "<lambda>")


def test_the_line_that_tells_of_a_caught_exception(library, caplog):
    assert watched(library.catches).first_line == "DEBUG acme_library: gave up: no such tile"
    assert watched(lambda: library.calls_back(swallows)).first_line == ""
    tells = "INFO acme_library: a tile of 4"

    def logs_first():
        library.log.info("a tile of %d", 4)
        library.catches()

    assert watched(logs_first).first_line == "DEBUG acme_library: gave up: no such tile"
    with caplog.at_level(logging.INFO, "acme_library"):
        assert watched(lambda: library.log.info("a tile of %d", 4)).first_line == tells

    def warns(call):
        try:
            call()
        except ValueError as error:
            warnings.warn(f"no: {error}", stacklevel=1)

    with pytest.warns(UserWarning):
        line = watched(lambda: library.calls_back(warns)).first_line
    assert line == "WARNING UserWarning: no: no such tile\nand more"


def test_the_function_that_is_looked_for(library):
    assert watched(lambda: library.calls_back(swallows)).entered is False
    assert watched(lambda: passes_on(str)).entered is True


SCRIPT = """
import torch
import minifier_backends.quiet

for function in (torch.relu, torch.sigmoid):
    torch.compile(function, backend="{backend}")(torch.randn(4))
    torch._dynamo.reset()
"""


def assert_told(bureau, backend, deed):
    found, said, _ = looked(bureau, SCRIPT.format(backend=backend))
    assert [(seen.graph, seen.is_whole) for seen in found.compared.fallbacks] == [(2, True)]
    assert f"{backend} ran 1 of 2 graphs itself" in said
    assert f"graph 2: it caught LoweringError: no kernel for sigmoid and {deed}" in said
    assert "DEBUG minifier_backends.quiet: falling back: no kernel for sigmoid" in said
    assert "With --fallbacks that is a failure" in said


@pytest.mark.timeout(150)
def test_a_graph_that_runs_in_eager_is_told(bureau):
    assert_told(bureau, "quiet_eager", "returned the graph as it was")


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(250)
def test_a_graph_that_goes_to_inductor_is_told(bureau):
    assert_told(bureau, "quiet_inductor", "handed the graph to inductor")


@pytest.mark.timeout(150)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backends_of_torch_are_not_watched(bureau, backend):
    found, said, _ = looked(bureau, SCRIPT.format(backend=backend))
    assert found.compared.fallbacks == () and "itself" not in said


NAMED_AFTER_NODES = """
import logging
import torch

log = logging.getLogger("named.unlike.its.module")


def lower(gm):
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is torch.sigmoid:
            raise NotImplementedError(f"no kernel for {node.name}")


def careful(gm, example_inputs):
    try:
        lower(gm)
    except NotImplementedError as error:
        log.debug("falling back: %s", error)
    return gm.forward
"""


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(250)
def test_a_line_that_names_a_node_is_known_by_its_other_words(project):
    project.write(NAMED_AFTER_NODES, "careful.py")
    script = """
    import careful
    import torch

    def gated(x):
        gate = torch.sigmoid(x.relu())
        return (gate * x).relu() + x

    torch.compile(gated, backend=careful.careful)(torch.randn(4))
    """
    done = project.run(script, given=["--fallbacks"])
    assert done.code == 0, done.stderr
    assert done.ops == (5, 1) and "Nothing is raised: the failure is this line of the log." in done.repro


GATED = """
import minifier_backends.quiet
import torch

def gated(x):
    return (torch.sigmoid(x.relu()) * x).relu() + x

torch.compile(gated, backend="quiet_eager")(torch.randn(4))
"""


def test_a_fallback_that_is_asked_for_is_a_failure(bureau):
    (failing,) = bureau.capture(GATED, silent_fallbacks=True).failing
    assert (failing.failure.fingerprint.kind, failing.unsaved) == (Kind.SILENT_FALLBACK, "")
    assert failing.failure.message == "DEBUG minifier_backends.quiet: falling back: no kernel for sigmoid"


@pytest.mark.usefixtures("soak")
@pytest.mark.timeout(250)
def test_a_fallback_that_is_asked_for_is_reduced(project):
    """Its repro lowers the level of the logger, which shows nothing by itself."""
    done = project.run(GATED, given=["--fallbacks"])
    assert (done.result["status"], done.result["ops_before"], done.result["ops_after"]) == ("reduced", 5, 1)
    assert 'logging.getLogger("minifier_backends.quiet").setLevel(logging.DEBUG)' in done.repro
    assert "torch.sigmoid(x)" in done.repro
