"""Higher-order ops replaced by what they call: small graphs written down."""

from dataclasses import replace

import pytest
from case_text import case_of, graph_of, show

from minifier.data.case.graph import Module
from minifier.reduction.passes.composite import calls, has_branches, holds_calls, inlined

BODY = "a: float32[2]\nb: float32[2]\nc = torch.add(a, b)\nd = torch.sin(c)\nreturn d,"
OTHER = "a: float32[2]\nb: float32[2]\ne = torch.cos(b)\nreturn e,"


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


def test_an_autograd_function_is_replaced_by_its_forward_without_what_that_saves():
    text = calling("autograd_function_apply", "body, back, x, y", ("body", "back"))
    forward = BODY.replace("return d,", "return (d,), (a, c)")
    case = case_of(text, bodies={"body_0": forward, "back_0": OTHER})
    assert is_inlined(case, INLINED, ("out",))
    not_paired = BODY.replace("return d,", "return (d,), c")
    assert inlined(case_of(text, bodies={"body_0": not_paired, "back_0": OTHER}), ("out",)).graph.node("z").args == (
        (inlined(case, ("out",)).graph.node("z").args[0],),
    )


BRANCHES = {"yes_0": BODY, "no_0": OTHER}


def test_a_cond_is_replaced_by_the_branch_that_is_wanted():
    case = case_of(calling("cond", "p, yes, no, (x, y)", ("yes", "no")), bodies=BRANCHES)
    assert calls(case.graph) == ("out",) and has_branches(case.graph)
    assert is_inlined(case, INLINED, ("out",))
    second = INLINED.replace("    c = torch.add(x, y)\n    d = torch.sin(c)", "    e = torch.cos(y)").replace(
        "(d)", "(e)"
    )
    assert is_inlined(case, second, ("out",), 1)


def test_a_loop_is_replaced_by_one_turn_of_its_body():
    case = case_of(calling("while_loop", "yes, no, (x,), (y,)", ("yes", "no")), bodies=BRANCHES)
    once = INLINED.replace("    c = torch.add(x, y)\n    d = torch.sin(c)", "    e = torch.cos(y)").replace(
        "(d)", "(e)"
    )
    assert calls(case.graph) == ("out",) and not has_branches(case.graph)
    assert is_inlined(case, once, ("out",))


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
MIDDLE = """
a: float32[2]
b: float32[2]
inner = get_attr(inner_0)
got: (float32[2],) = torch.ops.higher_order.wrap(inner, a, b)
g: float32[2] = operator.getitem(got, 0)
return g,
"""


def nested():
    case = case_of(NESTED)
    middle = graph_of(MIDDLE, bodies={"inner_0": BODY})
    return replace(case, graph=replace(case.graph, modules={"body_0": Module("", graph=middle)}))


def test_ops_inside_an_op_go_with_it_or_stay():
    case = nested()
    assert holds_calls(case.graph, "out") and is_inlined(case, INLINED, ("out",))
    outer = inlined(case, ("out",), deep=False)
    assert calls(outer.graph) == ("got",) and list(outer.graph.modules) == ["inner_0"]
    assert is_inlined(outer, INLINED, ("got",))


def test_names_that_are_taken_are_lengthened_and_numbered():
    text = """
        x: float32[2]
        c = torch.exp(x)
        out_c = torch.exp(c)
        body = get_attr(body_0)
        out: (float32[2],) = torch.ops.higher_order.wrap(body, out_c, c)
        r: float32[2] = operator.getitem(out, 0)
        again = get_attr(body_0)
        out1: (float32[2],) = torch.ops.higher_order.wrap(again, r, r)
        q: float32[2] = operator.getitem(out1, 0)
        return q, r
    """
    case = case_of(text, bodies={"body_0": BODY})
    assert is_inlined(
        case,
        """
        x: float32[2]
        c = torch.exp(x)
        out_c = torch.exp(c)
        out_c1 = torch.add(out_c, c)
        d = torch.sin(out_c1)
        out1_c = torch.add(d, d)
        out1_d = torch.sin(out1_c)
        return out1_d, d
        """,
        ("out", "out1"),
    )
    assert [node.name for node in inlined(case, ("out1",)).graph.ops] == ["c", "out_c", "out", "r", "out1_c", "d"]


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
