"""Names of graph nodes in what a user reads: the repro's variables, or the names in the user's own program."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from case_samples import call, graph, meta, output, placeholder, small_case

from minifier.case import Drawn, Ref, TensorInput
from minifier.case.source_names import source_names
from minifier.emit.forms import Template
from minifier.emit.repro import write_repro
from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage
from minifier.reduction.summary import Summary
from minifier.report.markdown import markdown
from minifier.report.outcome import Outcome, Status, result_data
from minifier.report.sections import report_of

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


def test_other_placeholders_keep_theirs():
    assert source_names(graph(placeholder("primals_1"), output("primals_1"))) == {}


def compared(name: str) -> Failure:
    where, sentence = f"gradient of {name}", f"gradient of {name} is off from double precision by 0.4, eager by 1e-08"
    difference = Difference(Aspect.GRADIENT, where, sentence, 0.4, 1e-8)
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="gradient", aspects=("gradient",))
    return Failure(fingerprint, "wrong-result", sentence, f"{sentence}\n", differences=(difference,))


def case_of_two_weights():
    """Two weights, of which the second reaches the failing op through an op that the reduction takes away."""
    first, second = (replace(placeholder(n), target=n.replace("l_", "L_", 1)) for n in (WEIGHT, "l_self_parameters_b_"))
    hidden = call("hidden_3", "torch.sin", Ref("l_self_parameters_b_"))
    ops = (
        hidden,
        call("tanh", "torch.tanh", Ref(WEIGHT), value=DIFFERENTIABLE),
        call("out", "torch.add", Ref("tanh"), Ref("hidden_3")),
    )
    inputs = tuple(TensorInput(node.name, DIFFERENTIABLE, Drawn("randn")) for node in (first, second))
    whole = graph(first, second, *ops, output("out"))
    return replace(small_case(), graph=whole, inputs=inputs, failure=compared(WEIGHT))


def outcome(with_repro: bool) -> Outcome:
    case = case_of_two_weights()
    minimal = replace(
        case,
        graph=graph(case.graph.nodes[0], call("tanh", "torch.tanh", Ref(WEIGHT), value=DIFFERENTIABLE), output("tanh")),
    )
    minimal = replace(minimal, inputs=case.inputs[:1])
    divergent = (("tanh", "output 0 is off"), ("hidden_3", "output 0 is off too"))
    summary = Summary(3, 1, 1, 6, {"total": 12}, True, "", 1.0, divergent=divergent)
    repro = write_repro(minimal, Template.COMPARE_GRADIENTS) if with_repro else None
    return Outcome(Status.REDUCED, case, minimal, summary, repro, None, "", 0.0, 1.0)


@pytest.mark.parametrize(("with_repro", "name"), [(True, "w"), (False, "user.l1.weight")])
def test_an_input_has_one_name_everywhere(with_repro, name):
    given = outcome(with_repro)
    assert given.repro is None or "def fn(w):" in given.repro.text
    texts = (markdown(report_of(given)), json.dumps(result_data(given)), given.shown_failure.sentence)
    for text in texts:
        assert f"radient of {name} " in text and "l_self" not in text.replace("l_self_parameters_b_", "")


def test_ops_that_diverge_are_named_by_their_function():
    text = markdown(report_of(outcome(with_repro=True)))
    section = text.partition("### Ops whose compiled result differs\n\n")[2].partition("\n\n")[0]
    assert section.splitlines() == ["- `tanh`: output 0 is off", "- `sin`: output 0 is off too"]


def test_an_input_that_the_repro_lacks_is_said_to_be_the_scripts():
    given = outcome(with_repro=True)
    captured = replace(
        given.case, graph=graph(replace(placeholder("l_w_"), target="L_w_"), *given.case.graph.nodes[1:])
    )
    assert replace(given, case=captured).names["l_w_"] == "w of the script"
