"""The reference backends: what each module of them promises. What the faulty ones plant is seen in the corpus."""

import json
import logging
import sys
from importlib import metadata

import click
import minifier_backends.faulty  # noqa: F401 - registers them
import pytest
import torch
from minifier_backends.composable import FallbackError, first_of
from minifier_backends.errors import LoweringError
from minifier_backends.faulty import faulty_segfault
from minifier_backends.speedy import TrainingNotSupported
from torch._dynamo.exc import BackendCompilerFailed
from warm_command import warm_python

from minifier.capturing.backend_reference import reference
from minifier.data.case import BackendSource


@pytest.fixture(autouse=True)
def clean_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def small_network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten())


LOADED = """
import json, sys
from torch._dynamo import list_backends, lookup_backend
from torch._dynamo.backends import registry
import minifier_backends

def loaded():
    return sorted(name for name in sys.modules if name.startswith("minifier_backends."))

facts = [loaded(), list_backends(None)]
backend = lookup_backend("reference_aot")
print(json.dumps([*facts, f"{backend.__module__}.{backend.__qualname__}", loaded()]))
"""


def test_an_entry_point_is_loaded_when_its_name_is_asked_for(processes, tmp_path):
    """In a process of its own: torch's registry cannot forget."""
    done = warm_python("-c", LOADED, folder=tmp_path, environment={"PATH": ""}, timeout=60)
    before, known, name, after = json.loads(done.stdout.splitlines()[-1])
    assert before == [] and {"reference_aot", "first_available", "faulty_installed"} <= {*known}
    assert not {"table", "speedy", "faulty_raise"} & {*known}
    assert name == "minifier_backends.aot.reference_aot" and "minifier_backends.speedy" not in after


def test_an_instance_that_no_import_reaches_is_of_its_class_distribution():
    backend = reference(click.Command("lower", callback=iter(())), sys.path)
    assert backend.reach is BackendSource.NONE and backend.reason
    assert (backend.distribution, backend.version) == ("click", metadata.version("click"))


def test_aot_trains_as_eager_does():
    eager, compiled = small_network(), small_network()
    x = torch.randn(2, 3, 6, 6)
    eager(x).square().sum().backward()
    torch.compile(compiled, backend="reference_aot")(x).square().sum().backward()
    for expected, found in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


def test_speedy_computes_what_eager_computes_and_refuses_training():
    network = small_network().eval()
    compiled = torch.compile(network, backend="speedy")
    with torch.no_grad():
        for batch in (2, 3):  # the second size is symbolic
            x = torch.randn(batch, 3, 6, 6)
            torch.testing.assert_close(compiled(x), network(x))
    with pytest.raises(BackendCompilerFailed, match=r"4 of \d+ tensors require grad") as raised:
        compiled(torch.randn(2, 3, 6, 6))
    assert isinstance(raised.value.inner_exception, TrainingNotSupported)


def mutating_and_failing(gm, example_inputs):
    """What a backend may do at its worst: it spoils the graph it was given, and then gives up."""
    for node in list(gm.graph.nodes):
        if node.op == "call_function":
            node.target = torch.zeros_like
    gm.recompile()
    example_inputs.clear()
    raise LoweringError("gave up halfway")


def test_first_of_takes_the_first_that_can_and_says_why(caplog):
    caplog.set_level(logging.WARNING, "minifier_backends.composable")
    backend = first_of("not_installed", mutating_and_failing, "eager", faulty_segfault)
    x = torch.linspace(0, 1, 4)
    torch.testing.assert_close(torch.compile(torch.tanh, backend=backend)(x), torch.tanh(x))
    said = [record.getMessage() for record in caplog.records if record.name == "minifier_backends.composable"]
    assert len(said) == 2 and "InvalidBackend" in said[0] and "LoweringError: gave up halfway" in said[1]


def test_first_of_strict_makes_a_fallback_an_error():
    with pytest.raises(BackendCompilerFailed, match="no lowering for tanh") as raised:
        torch.compile(torch.tanh, backend=first_of("faulty_raise", "eager", strict=True))(torch.ones(3))
    assert isinstance(raised.value.inner_exception, FallbackError)


@pytest.mark.parametrize(
    ("backend", "options"), [("faulty_raise", {"opp": "tanh"}), ("faulty_memory", {"limit_mib": "many"})]
)
def test_a_wrong_option_is_refused_by_name(backend, options):
    with pytest.raises(BackendCompilerFailed, match="OptionError: ") as raised:
        torch.compile(torch.relu, backend=backend, options=options)(torch.ones(3))
    error = str(raised.value.inner_exception)
    assert backend in error and next(iter(options)) in error
