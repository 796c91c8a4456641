"""A candidate sent as what it differs in."""

import json
from dataclasses import replace

from case_samples import call, graph, meta, output, placeholder
from hypothesis import given, settings
from hypothesis import strategies as st
from test_subset import graphs

from minifier.data.case import BackendReference, BackendSource, Call, Case, Drawn, Ref, State, TensorInput
from minifier.data.case.ops import with_ops
from minifier.data.case.store import edit_from, edited
from minifier.data.failure import Failure, Fingerprint, Kind, Stage

FAILURE = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION), "ValueError", "no")


def case_of(whole) -> Case:
    inputs = tuple(TensorInput(node.name, meta(2, 3), Drawn("randn")) for node in whole.placeholders)
    return Case(whole, inputs, BackendReference("mine", BackendSource.REGISTERED, '"mine"'), FAILURE)


def sent(base: Case, case: Case) -> Case:
    return edited(base, json.loads(json.dumps(edit_from(base, case))))


@settings(max_examples=60)
@given(graphs(), st.data())
def test_what_comes_back_is_the_candidate(whole, data):
    base = case_of(whole)
    names = data.draw(st.sets(st.sampled_from([node.name for node in whole.ops])))
    candidate = with_ops(base, names)
    assert sent(base, candidate) == candidate
    other = replace(
        candidate,
        inputs=tuple(replace(item, meta=meta(1, 3), source=Drawn("rand", 0.0, 2.0)) for item in candidate.inputs),
        backend=replace(base.backend, options={"level": (1, None)}),
        state=State(grad=False, config=(("torch._dynamo.config", "verbose", True),)),
        before=(Call(times=2),),
    )
    assert sent(base, other) == other and sent(other, base) == base


def test_what_stays_is_not_sent():
    nodes = [placeholder("x")]
    for i in range(100):
        nodes.append(call(f"v{i}", "torch.sin", Ref(nodes[-1].name)))
    base = case_of(graph(*nodes, output("v99")))
    edit = edit_from(base, with_ops(base, [f"v{i}" for i in range(40, 100)]))
    assert edit["nodes"][1:] == [[41, 101]] and not edit["changed"]
