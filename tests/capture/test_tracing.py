"""Failures of torch.compile itself at an op that it traces: with any backend."""

import pytest
from vocabulary import source_of

from minifier.data.failure import Kind, Stage

pytestmark = pytest.mark.timeout(150)

WEIGHTED = """
    import torch

    class Whiten(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.weigh = torch.nn.Linear(5, 8), torch.nn.Linear(8, 1)

        def forward(self, x):
            hidden = torch.tanh(self.first(x)) + 1
            weights = torch.sigmoid(self.weigh(hidden)).squeeze(-1)
            spread = torch.cov(hidden.t(), aweights=weights)
            return hidden @ torch.linalg.inv(spread + torch.eye(8))

    torch.manual_seed(0)
    model, x = Whiten().eval(), torch.randn(20, 5)
"""
COMPILED = """
    with torch.no_grad():
        torch.compile(model, backend="{backend}", dynamic=True)(x)
"""


def test_the_scripts_own_backend_has_no_part_in_it(bureau):
    script = source_of(WEIGHTED + COMPILED.format(backend="oddlib_tanh"))
    captured = bureau.capture(f"import oddlib\n{script}")
    (failing,) = captured.failing
    case = bureau.case(failing.number)
    assert (failing.stage, failing.failure.fingerprint.kind) == (Stage.COMPILE, Kind.EXCEPTION)
    assert case.while_tracing and case.through_dynamo and case.backend.expression == '"eager"'
    assert case.graph.ops[-1].target == "torch.cov" and case.backend.dynamic


def test_an_exception_that_the_script_catches_is_no_failure(bureau):
    attempt = COMPILED.format(backend="eager").strip()
    first, _, second = attempt.partition("\n")
    after = "torch.compile(torch.tanh, backend='eager')(x)"
    caught = f"\ntry:\n    {first}\n        {second.strip()}\nexcept Exception:\n    {after}\n"
    captured = bureau.capture(source_of(WEIGHTED) + caught)
    assert captured.failing == () and captured.script_status in (0, None)
