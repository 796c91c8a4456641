"""Names of graph nodes in what a user reads: the repro's variables, or the names in the user's own program."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from case_samples import call, graph, meta, output, placeholder, small_case
from outcomes import finished, summed_up, text_of

from minifier.data.case import Drawn, Ref, TensorInput
from minifier.data.case.inputs import source_names
from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro
from minifier.repro.report.outcome import result_data

DIFFERENTIABLE = replace(meta(2, 3), requires_grad=True)
WEIGHT = "l_self_modules_user_modules_l1_parameters_weight_"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("L_x_", "x"),
        ("L_self_parameters_weight_", "weight"),
        ("L_s_modules_user_modules_l1_parameters_weight_", "user.l1.weight"),
        ("L_self_modules_norm_buffers_running_mean_", "norm.running_mean"),
        ("L_my_modules_list_0_", "my_modules_list_0"),
        ("L_modules_path_", "modules_path"),
    ],
)
def test_a_placeholder_has_the_name_of_the_program(target, name):
    assert source_names(graph(replace(placeholder("l_it_"), target=target), output("l_it_"))) == {"l_it_": name}
    assert source_names(graph(placeholder("primals_1"), output("primals_1"))) == {}


def outcome(with_repro: bool):
    """A run on two weights, of which the second reaches the failing op through an op that the reduction takes away."""
    first, second = (replace(placeholder(n), target=n.replace("l_", "L_", 1)) for n in (WEIGHT, "l_self_parameters_b_"))
    tanh = call("tanh", "torch.tanh", Ref(WEIGHT), value=DIFFERENTIABLE)
    hidden = call("hidden_3", "torch.sin", Ref(second.name))
    ops = (hidden, tanh, call("out", "torch.add", Ref("tanh"), Ref("hidden_3")))
    where = f"gradient of {WEIGHT}"
    difference = Difference(Aspect.GRADIENT, where, f"{where} is off", 0.4, 1e-8)
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="gradient", aspects=("gradient",))
    failure = Failure(fingerprint, "wrong-result", f"{where} is off", f"{where} is off\n", differences=(difference,))
    inputs = tuple(TensorInput(node.name, DIFFERENTIABLE, Drawn("randn")) for node in (first, second))
    case = replace(small_case(), graph=graph(first, second, *ops, output("out")), inputs=inputs, failure=failure)
    minimal = replace(case, graph=graph(first, tanh, output("tanh")), inputs=inputs[:1])
    repro = write_repro(minimal, Template.COMPARE) if with_repro else None
    given = finished(case, minimal, repro, verification=None)
    return summed_up(given)


@pytest.mark.parametrize(("with_repro", "name"), [(True, "w"), (False, "user.l1.weight")])
def test_an_input_has_one_name_everywhere(with_repro, name):
    given = summed_up(outcome(with_repro), needs=(f"`{WEIGHT}` made contiguous.",), passes={"sizes": "fixpoint"})
    report = text_of(given)
    for text in (report, json.dumps(result_data(given)), given.shown_failure.sentence):
        assert f"radient of {name} " in text and WEIGHT not in text
    assert f"`{name}`" in report.partition("What the failure needs")[2].partition("##")[0]


def test_an_input_that_the_repro_lacks_is_said_to_be_the_scripts():
    given = outcome(with_repro=True)
    nodes = (replace(placeholder("l_w_"), target="L_w_"), *given.case.graph.nodes[1:])
    assert "script" in replace(given, case=replace(given.case, graph=graph(*nodes))).names["l_w_"]
