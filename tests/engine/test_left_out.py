"""Which applications a probe of an explanation leaves out."""

from dataclasses import replace

import pytest
from chains import chain

from minifier.data.failure import Stage
from minifier.reduction import explain as module
from minifier.reduction.probe.children import ChildEnd, Limits
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.torch_side.fx.tensors import StoredTensors


@pytest.mark.parametrize("alone", [0, 1])
def test_a_case_that_is_probed_again_alone_lacks_what_it_lacked_before(monkeypatch, folder, alone):
    seen = []
    monkeypatch.setattr(module, "choose_applications", lambda ask: seen.append([ask("lowerings", "sin") for _ in "12"]))
    for name in ("observe_aot_compilers", "choose_partitions", "evaluate"):
        monkeypatch.setattr(module, name, lambda *_: {"status": "pass"})
    monkeypatch.setattr(
        module, "run_again_if_killed", lambda jobs, *_: [ChildEnd(job(), 0.1, status=0) for job in jobs]
    )
    case = chain("sin")
    cases = [replace(case), replace(case)]
    prober = module._LimitedProber(PreparedCase(case, StoredTensors(None)), folder)
    first, second = (module._LeftOut("lowerings", range(n, n + 1), "") for n in (1, 2))
    prober.left_out = {id(cases[0]): first, id(cases[1]): second}
    prober.probe(cases, Stage.COMPILE, Limits(1.0))
    prober.probe([cases[alone]], Stage.COMPILE, Limits(1.0))
    assert seen[:2] == [[True, False], [False, True]] and seen[2] == seen[alone]
