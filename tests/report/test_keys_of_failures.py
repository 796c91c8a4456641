"""Duplicate keys of real failures: one key for one failure, from whatever script, and other keys for others."""

import pytest
from vocabulary import Bureau, source_of

from minifier.capturing.script_limits import Comparing
from minifier.data.failure import Tolerance
from minifier.repro.report.outcome import duplicate_key

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("soak")]

TAGGER = """
    import minifier_backends.faulty
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3), torch.nn.Softmax(-1))
    torch.compile(model, backend="faulty_FAULT", options=OPTIONS)(torch.randn(5, 6))
"""
PHYSICS = """
    import minifier_backends.faulty
    import torch


    def energy(q, p, mass=2.0):
        kinetic = (p * p).sum(-1) / (2 * mass)
        return torch.softmax(kinetic.tanh() + torch.cos(q).sum(-1), 0) * q.norm()


    torch.compile(energy, backend="faulty_FAULT", options=OPTIONS)(torch.ones(7, 2), torch.arange(14.0).view(7, 2))
"""
FAULTS = {
    "tanh raises": ("raise", {"op": "tanh"}),
    "softmax raises": ("raise", {"op": "softmax"}),
    "tanh raises at run time": ("raise", {"op": "tanh", "stage": "run"}),
    "tanh kills": ("segfault", {"op": "tanh"}),
    "tanh aborts": ("abort", {"op": "tanh"}),
    "tanh ends the process": ("exit", {"op": "tanh"}),
    "tanh is wrong": ("wrong", {"op": "tanh", "factor": 1.5}),
    "softmax is wrong": ("wrong", {"op": "softmax", "factor": 1.5}),
    "tanh is NaN": ("nan", {"op": "tanh"}),
}


def key_of(script, fault, folder):
    name, options = FAULTS[fault]
    folder.mkdir(parents=True)
    bureau = Bureau(folder)
    text = source_of(script).replace("FAULT", name).replace("OPTIONS", repr(options))
    bureau.capture(text, comparing=Comparing(Tolerance()))
    _, minimal = bureau.reduce()
    return duplicate_key(minimal)


def test_a_failure_has_one_key_in_two_programs_and_no_two_failures_have_the_same(tmp_path):
    keys = {fault: key_of(TAGGER, fault, tmp_path / "tagger" / fault) for fault in FAULTS}
    again = {fault: key_of(PHYSICS, fault, tmp_path / "physics" / fault) for fault in FAULTS}
    assert keys == again
    assert len(set(keys.values())) == len(FAULTS)
