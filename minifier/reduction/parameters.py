"""The tensors that a reduced graph holds itself, as parameters of a function, which a repro has."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Level
from minifier.case.attributes import attributes_as_inputs
from minifier.failure import Verdict
from minifier.reduction.probe_runner import ProbeRunner


def with_parameters(runner: ProbeRunner, case: Case, reduced: Case) -> tuple[Case, Case]:
    """Return the whole and the reduced Case with the tensors of a graph of Dynamo's as parameters of its function.

    They are probed through torch.compile, which makes attributes of parameters where the backend asks for that. Both
    are unchanged if the reduced Case then does not show the failure.
    """
    if reduced.level is not Level.DYNAMO or not reduced.graph.attributes:
        return case, reduced
    changed = replace(attributes_as_inputs(reduced), through_dynamo=True)
    with runner.beside("parameters", changed) as keep:
        (judged,) = runner.probe([changed])
        if judged.verdict is not Verdict.SAME:
            return case, reduced
        whole = replace(attributes_as_inputs(case), through_dynamo=True)
        runner.adopt(whole)
        runner.sight(changed, judged.failure)
        keep()
    return whole, changed
