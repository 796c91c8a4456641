"""Backends that quietly leave a graph to others: told, though nothing failed."""

import contextlib
import logging
import sys
import types
import warnings

import pytest
from capture_looks import looked
from layers import SOAK, sampled

from minifier.data.failure import Kind
from minifier.process.logs import CallWatch

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


NAMED = """
import logging

log = logging.getLogger("named.otherwise")
log.setLevel(logging.ERROR)

def logs(how):
    try:
        raise ValueError("no tile")
    except ValueError as error:
        how(log, error)

def logs_by_level(log, error):
    log.log(logging.DEBUG, "gave up: %s", error)

def logs_a_warning(log, error):
    log.warning("gave up: %s", error)

def logs_with_an_adapter(log, error):
    logging.LoggerAdapter(log, {}).info("gave up: %s", error)

def logs_if_enabled(log, error):
    if log.isEnabledFor(logging.DEBUG):
        log.debug("gave up: %s", error)

def logs_behind_a_guard():
    if log.isEnabledFor(logging.DEBUG):
        raise AssertionError("a dump that costs much")
    log.debug("all is well")
"""


@pytest.mark.parametrize(
    ("how", "level"),
    [
        ("logs_by_level", "DEBUG"),
        ("logs_a_warning", "WARNING"),
        ("logs_with_an_adapter", "INFO"),
        ("logs_if_enabled", "DEBUG"),
    ],
)
def test_suppressed_records_are_heard_however_they_are_logged(library, caplog, how, level):
    line = f"{level} named.otherwise: gave up: no tile"
    exec(NAMED, library.__dict__)
    watch = watched(lambda: library.logs(getattr(library, how)))
    assert watch.logged == [line] and watch.first_line == line
    assert caplog.records == [] and not library.log.isEnabledFor(logging.WARNING)


def test_a_level_is_as_it_is_where_nothing_is_caught(library):
    exec(NAMED, library.__dict__)
    assert watched(library.logs_behind_a_guard).logged == ["DEBUG named.otherwise: all is well"]


def test_other_loggers_stay_silent(library, caplog):
    def logs():
        logging.getLogger("somebody.else").debug("not heard")

    assert watched(logs).logged == [] and caplog.records == []


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


@pytest.mark.timeout(250)
@pytest.mark.parametrize("backend", ["quiet_eager", pytest.param("quiet_inductor", marks=SOAK)])
def test_a_graph_that_goes_to_another_compiler_is_told(bureau, backend):
    found, said, _ = looked(bureau, SCRIPT.format(backend=backend))
    assert [(seen.graph, seen.is_whole) for seen in found.compared.fallbacks] == [(2, True)]
    assert "no kernel for sigmoid" in said and "--fallbacks" in said


PIECES = """
import torch
import minifier_backends.pieces

with torch.no_grad():
    torch.compile(lambda x: torch.relu(x.sin()), backend="pieces")(torch.randn(4))
"""


@pytest.mark.timeout(250)
@pytest.mark.soak
def test_a_backend_that_is_made_of_inductor_runs_its_graphs_itself(bureau):
    found, said, _ = looked(bureau, PIECES)
    assert [(seen.is_whole, seen.is_plain) for seen in found.compared.fallbacks] == [(False, True)]
    assert "--fallbacks" not in said
    assert bureau.capture(PIECES, silent_fallbacks=True).failing == ()


LAZY = """
import torch
from torch.fx.passes.split_module import split_module

class Piece(torch.nn.Module):
    def __init__(self, gm, is_refused):
        super().__init__()
        self.gm, self.is_refused = gm, is_refused

    def forward(self, *args):
        try:
            if self.is_refused:
                raise NotImplementedError("no kernel for this piece")
            return torch.sin(*args)
        except NotImplementedError:
            return self.gm(*args)

def pieces(gm):
    gm = split_module(gm, gm, lambda node: int(node.target is torch.relu))
    for number, refused in enumerate([{first}, True]):
        setattr(gm, f"submod_{{number}}", Piece(gm.get_submodule(f"submod_{{number}}"), refused))
    return gm

def lazy(gm, inputs):
    runs = {runs}
    return lambda *args: runs(*args)

with torch.no_grad():
    torch.compile(lambda x: torch.relu(x.sin()), backend=lazy)(torch.randn(4))
"""


@pytest.mark.timeout(250)
@pytest.mark.parametrize(
    ("first", "runs", "is_whole"),
    sampled([("False", "pieces(gm)", False), ("True", "Piece(gm, True)", True), ("True", "pieces(gm)", True)]),
)
def test_a_graph_that_runs_with_torch_after_an_exception_is_told(bureau, first, runs, is_whole):
    found, said, _ = looked(bureau, LAZY.format(first=first, runs=runs))
    assert [seen.is_whole for seen in found.compared.fallbacks] == [is_whole]
    assert "no kernel for this piece" in said


@pytest.mark.timeout(150)
def test_backends_of_torch_are_not_watched(bureau):
    found, _, _ = looked(bureau, SCRIPT.format(backend="aot_eager"))
    assert found.compared.fallbacks == ()


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
