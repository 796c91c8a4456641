"""Higher-order ops replaced by what they call: small graphs written down."""

from dataclasses import replace

import pytest
from case_text import case_of, graph_of, show

from minifier.data.case.graph import Module
from minifier.reduction.passes.inlining import calls, has_branches, holds_calls, inlined

BODY = "a: float32[2]\nb: float32[2]\nc = torch.add(a, b)\nd = torch.sin(c)\nreturn d,"


def calling(target, arguments, gets=("body",)):
    held = "".join(f"{name} = get_attr({name}_0)\n" for name in gets)
    return f"""
x: float32[2]
y: float32[2]
p: bool[()]
{held}out: (float32[2],) = torch.ops.higher_order.{target}({arguments})
r: float32[2] = operator.getitem(out, 0)
z = torch.exp(r)
return z,
"""


INLINED = """
    x: float32[2]
    y: float32[2]
    p: bool[()]
    c = torch.add(x, y)
    d = torch.sin(c)
    z = torch.exp(d)
    return z,
"""
CALLS = {
    "wrap": "body, x, y",
    "tag_activation_checkpoint": "body, x, y",
    "wrap_activation_checkpoint": "body, x, y",
    "invoke_subgraph": 'body, "body_0", x, y',
    "wrap_with_set_grad_enabled": "False, body, x, y",
    "wrap_with_autocast": '"cpu", None, body, x, y',
}


def is_inlined(case, text, *arguments, **options):
    assert show(inlined(case, *arguments, **options)) == show(graph_of(text))
    return True


@pytest.mark.parametrize("target", CALLS)
def test_an_op_that_calls_its_body_is_replaced_by_it(target):
    case = case_of(calling(target, CALLS[target]), bodies={"body_0": BODY})
    assert calls(case.graph) == ("out",) and not has_branches(case.graph) and not holds_calls(case.graph, "out")
    assert is_inlined(case, INLINED, ("out",))
    assert is_inlined(case, INLINED, ("out",), 1), "there is no other branch"
    assert inlined(case, ("out",)).graph.modules == {}
    assert inlined(case, ()).graph is case.graph


@pytest.mark.parametrize(
    "text",
    [
        calling("unknown", "body, x, y"),
        calling("wrap", "body, x"),
        calling("wrap", "x, y", ()),
        calling("cond", "p, body, (x, y)"),
        calling("while_loop", "body, (x,), (y,)"),
        calling("wrap", "body, x, y").replace("torch.ops.higher_order.", "torch."),
        calling("wrap", "body, x, y").replace("operator.getitem(out, 0)", "torch.f(out, 0)"),
        calling("wrap", "body, x, y").replace("operator.getitem(out, 0)", "operator.getitem(out, p)"),
        calling("wrap", "body, x, y").replace("get_attr(body_0)", "get_attr(missing_0)"),
    ],
    ids=["unknown", "operands", "no body", "one branch", "one body", "no such op", "user", "item", "not held"],
)
def test_an_op_stays_whose_graph_or_results_cannot_be_told(text):
    case = case_of(text, bodies={"body_0": BODY})
    assert calls(case.graph) == () and not holds_calls(case.graph, "out")
    assert show(inlined(case, ("out",))) == show(case)


NESTED = calling("wrap", "body, x, y")


def test_what_a_body_holds_is_held_by_the_graph_under_a_free_name():
    inner = graph_of(BODY.replace("c = torch.add(a, b)", "w = get_attr(inner.weight)\nc = torch.add(a, w)"))
    inner = replace(inner, attributes={"inner.weight": "key"}, modules={"unused": Module("ReLU")})
    case = case_of(NESTED)
    modules = {"body_0": Module("", graph=inner), "inner_weight": Module("Taken")}
    case = replace(case, graph=replace(case.graph, modules=modules, attributes={"other": "unread", "x": "unread"}))
    graph = inlined(case, ("out",)).graph
    assert graph.attributes == {"out_inner_weight": "key"} and graph.modules == {}
    assert graph.node("w").target == "out_inner_weight"


def test_a_module_that_a_body_calls_is_called_under_a_free_name():
    inner = graph_of(BODY)
    called = replace(inner.node("d"), op="call_module", target="act.one")
    nodes = tuple(called if node.name == "d" else node for node in inner.nodes)
    inner = replace(inner, nodes=nodes, modules={"act.one": Module("ReLU")})
    case = case_of(NESTED)
    case = replace(case, graph=replace(case.graph, modules={"body_0": Module("", graph=inner)}))
    graph = inlined(case, ("out",)).graph
    assert graph.modules == {"act_one": Module("ReLU")} and graph.node("d").target == "act_one"


def test_hints_at_ops_that_are_gone_go_with_them():
    case = case_of(NESTED, bodies={"body_0": BODY})
    hints = (("out", "z"), ("out",), ("z",), ("r", "x"))
    case = replace(case, failure=replace(case.failure, hints=hints))
    assert inlined(case, ("out",)).failure.hints == (("z",), ("x",))
