"""The run that compares: what it says was compared was, whatever becomes of that run."""

import pytest
import torch
from capture_looks import looked
from layers import SOAK, sampled

from minifier.capturing.compared_calls import Training
from minifier.capturing.script import Program
from minifier.capturing.script_limits import Comparing
from minifier.data.case.store import load
from minifier.data.failure import Tolerance
from minifier.data.losses import lose, losses_of_a_run
from minifier.flow.no_failure import nothing_failed
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(150)

WRONG = """
import ctypes, os, sys
import oddlib.deadly
import torch

def wrong(gm, inputs, at_second=None):
    calls = []
    for node in gm.graph.nodes:
        if node.target is torch.sigmoid:
            node.target = torch.tanh
    gm.recompile()
    def run(*args):
        calls.append(None)
        if len(calls) == 2 and at_second is not None:
            at_second()
        return gm.forward(*args)
    return run

def raises():
    raise RuntimeError("a plan for one call")

def hangs():
    oddlib.deadly.end("sleep")

def dies():
    ctypes.string_at(0)
"""


def test_a_script_that_does_not_run_twice(bureau):
    text = f'import os\nos.mkdir("results")\n{WRONG}\ntorch.compile(torch.sigmoid, backend=wrong)(torch.randn(4))\n'
    found, said, _ = looked(bureau, text)
    assert found.compared.compared == () and "agreed" not in said
    assert "No result could be compared with eager's" in said and "FileExistsError" in said


@pytest.mark.parametrize(
    ("what", "reason", "compared"),
    [
        ("raises", "raises when it is called once more: RuntimeError: a plan for one call", [(1, False), (2, False)]),
        ("hangs", " s when what was compiled was called once more", [(2, False)]),
        ("dies", "the process ended (SIGSEGV) when what was compiled was called once more", [(2, False)]),
    ],
)
def test_a_second_call_that_does_not_come_back(bureau, what, reason, compared):
    """Only gradients need a second call of what was compiled."""
    text = f"""{WRONG}
import functools
f = torch.compile(lambda x: torch.cos(x), backend=functools.partial(wrong, at_second={what}))
f(torch.randn(4, requires_grad=True)).sum().backward()
torch.compile(torch.sin, backend=wrong)(torch.randn(4))
"""
    found, said, lines = looked(bureau, text)
    assert found.captured.failing == () and len(found.captured.forwards) == 2
    assert [(n, r.endswith(reason)) for n, r in found.compared.not_compared] == [(1, True)]
    assert [(number, gradients) for number, _, gradients in found.compared.compared] == compared and reason in said
    assert sum("running the script again" in line for line in lines) == (1 if what == "raises" else 2)


def test_a_result_is_compared_without_a_second_call(bureau):
    text = f"""{WRONG}
import functools
torch.compile(torch.sigmoid, backend=functools.partial(wrong, at_second=dies))(torch.randn(4))
"""
    found, _, _ = looked(bureau, text)
    assert [failing.failure.fingerprint.message for failing in found.captured.failing] == ["values"]


LATER = """
import torch

def forgetful(gm, inputs):
    keys = []
    def run(*args):
        keys.append(({key}))
        (y,) = gm.forward(*args)
        return (y if keys[-1] == keys[0] else y + 1,)
    return run

f = torch.compile(lambda x, w: x.sin() + w.cos(), backend=forgetful)
x, w = torch.randn(4, 4), torch.randn(4, 4)
for i in range(6):
    f(x, w)
    {step}
"""
WINDOWS = "ring = torch.randn(8, 4); x, w = (ring[:4], ring[2:6]) if i > 1 else (x, w)"


@pytest.mark.parametrize(
    ("key", "step", "call"),
    sampled(
        [
            ("args[0].data_ptr()", "x = torch.randn(4, 4)", 2),
            ("args[1]._version", "w.add_(i == 3)", 2),
            ("len(keys) > 4", "", 6),
            ("args[0].untyped_storage().data_ptr() == args[1].untyped_storage().data_ptr()", WINDOWS, 4),
        ]
    ),
    ids=["another tensor", "written weights", "the last", "shared memory"],
)
def test_a_later_call_is_compared_if_its_inputs_are_of_another_kind(bureau, key, step, call):
    found, _, _ = looked(bureau, LATER.format(key=key, step=step))
    (failing,) = found.captured.failing
    assert (failing.failure.fingerprint.message, failing.call) == ("values", call)


WORSE = """
import torch

def strange(gm, inputs):
    calls = []
    def run(*args):
        calls.append(None)
        (y,) = gm.forward(*args)
        return (y + 1 if len(calls) == {wrong} else y.t().contiguous().t(),)
    return run

f = torch.compile(lambda x: x.sin(), backend=strange)
for i in range(4):
    f(torch.full((2, 2), float(i)))
"""


@pytest.mark.parametrize(
    ("wrong", "aspect", "call"), [(4, "values", 4), pytest.param(1, "values", 1, marks=SOAK), (9, "stride", 1)]
)
def test_a_worse_result_of_a_later_call_takes_the_place_of_an_earlier(bureau, wrong, aspect, call):
    found, _, _ = looked(bureau, WORSE.format(wrong=wrong))
    (failing,) = found.captured.failing
    assert (failing.failure.fingerprint.message, failing.call) == (aspect, call)
    folder = found.captured.folder / "1"
    case = load(folder)
    assert (case.calls, case.failure.fingerprint.message) == (call, aspect)
    assert StoredTensors(case.tensors).get(case.inputs[0].source.key).unique().tolist() == [call - 1.0]
    assert not (folder / "later").exists()


STALE = """
import torch

def packs(gm, inputs):
    kept = []
    def run(*args):
        kept.append((gm.forward(*args)[0] * {scale}).round() / {scale})
        return (kept[0],)
    return run

f = torch.compile(lambda x: x.sin() / 3, backend=packs)
for i in range(3):
    f(torch.full((2, 2), float(i + 1)))
"""


@pytest.mark.parametrize(("scale", "call"), [(1 << 14, 2), (4, 1)], ids=["rounded by design", "off at once"])
def test_a_far_larger_error_of_a_later_call_takes_the_place_of_a_small_one(bureau, scale, call):
    found, _, _ = looked(bureau, STALE.format(scale=scale))
    (failing,) = found.captured.failing
    assert (failing.failure.fingerprint.message, failing.call) == ("values", call)


@pytest.mark.soak
def test_the_graph_with_the_worst_result_comes_first(bureau):
    text = """
import torch

def strange(gm, inputs):
    is_exp = any(node.target is torch.exp for node in gm.graph.nodes)
    def run(*args):
        (y,) = gm.forward(*args)
        return (y.t().contiguous().t() if is_exp else y + 0.25,)
    return run

x = torch.compile(lambda x: torch.exp(x) * 1, backend=strange)(torch.rand(4, 4))
torch.compile(lambda x: torch.relu(x), backend=strange)(x)
torch.compile(lambda x: torch.exp(x) * 2, backend=strange)(x)
"""
    found, _, _ = looked(bureau, text)
    failing = [(each.number, each.failure.fingerprint.message) for each in found.captured.failing]
    assert failing == [(2, "values"), (1, "stride")]  # the third graph's is the first's


def test_calls_of_one_kind_are_compared_once(bureau):
    found, said, _ = looked(bureau, LATER.format(key="0", step="x = torch.randn(4, 4)"))
    assert [call for _, call, _ in found.compared.compared] == [1, 2, 6]
    assert "3 of 6 calls, of 1 of 1 graph" in said


MANY_GRAPHS = """
import torch

torch._dynamo.config.recompile_limit = 16

def model(x, k):
    return x.sin() * k

for k in range(1, 11):
    f = torch.compile(model, backend="aot_eager", dynamic=False)
    f(torch.randn(k), k)
    f(torch.randn(k), k)
"""


def test_a_bound_on_the_time_of_comparing_is_kept_and_told(bureau):
    first = bureau.capture(MANY_GRAPHS)
    comparing = Comparing(Tolerance(), last_calls=dict(first.calls), seconds=0.0)
    compared = bureau.capture(MANY_GRAPHS, comparing=comparing)
    assert [(number, call) for number, call, _ in compared.compared] == [(number, 1) for number in range(1, 9)]
    assert [number for number, _ in compared.not_compared] == [9, 10] and compared.bounded > 0
    said = str(nothing_failed(Program("failing.py"), first, compared))
    assert "8 of 20 calls, of 8 of 10 graphs" in said
    assert said.index("graph 9: comparing had taken") < said.index("Checked")
    assert "Further calls were not compared once comparing had taken" in said


def test_where_graphs_may_not_be_seen_it_is_not_said_that_there_are_none(bureau):
    captured = bureau.capture("print('done')")
    with losses_of_a_run():
        lose("graphs", "call_user_compiler is missing")
        said = str(nothing_failed(Program("failing.py"), captured, None))
    assert "call_user_compiler is missing" in said and "nothing in it was compiled" not in said


@pytest.mark.parametrize(
    "read", sampled(["sys.stdin.readline()", "input()", "sys.stdin.buffer.read(2)", "sys.stdin.read()"], 4)
)
def test_standard_input_is_there_again(bureau, read):
    text = f"{WRONG}\nn = int({read})\nassert sys.stdin.fileno() == 0\n"
    text += "torch.compile(torch.sigmoid, backend=wrong)(torch.randn(n))\n"
    found, _, _ = looked(bureau, text, given=b"4\n\n" if "read()" not in read else b"4\n")
    (failing,) = found.captured.failing
    assert failing.failure.fingerprint.message == "values"


UNTRAINED = """
import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func

def refuses(gm, inputs):
    if any("sigmoid_backward" in str(node.target) for node in gm.graph.nodes):
        raise RuntimeError("no backward of sigmoid")
    return make_boxed_func(gm.forward)

backend = aot_autograd(fw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), bw_compiler=refuses)
torch.compile(torch.nn.Linear(4, 4), backend=backend)(torch.randn(2, 4)).sum().backward()
w = torch.randn(4, requires_grad=True)
metric = torch.compile(lambda x: torch.sigmoid(x * w).mean(), backend=backend)
metric(torch.randn(4)).item()
"""


def test_gradients_that_the_script_never_asks_for_are_not_compared(bureau):
    found, said, _ = looked(bureau, UNTRAINED)
    assert found.captured.failing == () and found.captured.trained == {1}
    assert [gradients for _, _, gradients in found.compared.compared] == [True, False]
    assert "gradients of 1." in said


def test_the_graphs_below_the_roots_of_a_backward_pass_are_trained():
    trained, x = [], torch.randn(4, requires_grad=True)
    training = Training(trained.append)

    def called(number, function, x):
        before, y = training.before(number, (x,)), function(x)
        training.after(number, (x,), y, before)
        return y

    first = called(1, torch.sin, x)
    second, _ = called(2, torch.cos, first), called(3, torch.tan, first)
    training.passes([second.sum()])
    assert sorted(trained) == [1, 2]


RETAINS = """
import torch
f = torch.compile(lambda x, w: torch.tanh(x @ w).sin(), backend="aot_eager")
x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
y = f(x, w).pow(2).sum()
y.backward(retain_graph=True)
y.backward()
"""


def test_the_backward_pass_of_a_comparison_is_not_in_the_way_of_the_scripts_own(bureau):
    """The script's second backward pass failed: the memory of its saved tensors had been given away."""
    found, said, _ = looked(bureau, RETAINS)
    assert found.compared.compared == ((1, 1, True),)
    assert (found.compared.error, found.compared.script_status) == ("", 0) and "went otherwise" not in said


VARIES = """
import torch

def backend(gm, inputs):
    return lambda x: tuple(value.float() for value in gm.forward(x.double()))

def sharply(x):
    return torch.atan2(torch.sin(x * 3) - torch.sin(x * 3.0000002), torch.full_like(x, -1.0))

x = torch.linspace(0, 10, 41)
y = torch.compile(sharply, backend=backend)(x)
"""


@pytest.mark.parametrize("checks", [False, True])
def test_an_excused_difference_is_followed_where_the_script_fails(bureau, checks):
    found, _, _ = looked(bureau, VARIES + ("torch.testing.assert_close(y, sharply(x))\n" if checks else ""))
    assert len(found.captured.failing) == checks and (found.own_failure is not None) is checks
    assert bool(found.compared.excused) is not checks


def test_gradients_of_other_random_numbers_are_not_told_as_compared(bureau):
    text = """
    import torch

    def further(gm, inputs):
        def run(*args):
            torch.rand(1)
            return gm.forward(*args)

        return run

    x = torch.randn(40, 10, requires_grad=True)
    torch.compile(lambda x: torch.dropout(x.sin(), 0.5, True), backend=further)(x).sum().backward()
    """
    found, said, _ = looked(bureau, text)
    assert found.captured.failing == () and found.compared.compared == ((1, 1, False),)
    assert [number for number, _ in found.compared.not_compared] == [1]
    assert said.index("random numbers") < said.index("Checked")
