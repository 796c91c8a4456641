"""State, configuration and options to their defaults."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import made, names

from minifier.data.case import BackendReference, BackendSource, State, Symbolic

TEXT = "x: float32[2](requires_grad=True)\nn: 5\ny = torch.sin(x)\nreturn y,"
CONFIG = (("torch._dynamo.config", "verbose", True), ("torch._inductor.config", "verbose", True))


def with_state(**changes):
    return case_of(TEXT, state=State(**changes))


def test_each_configuration_value_goes_alone():
    found = made("config", with_state(config=CONFIG))
    assert list(found) == ["torch._dynamo.config.verbose", "torch._inductor.config.verbose"]
    assert [case.state for (case,) in found.values()] == [State(config=CONFIG[1:]), State(config=CONFIG[:1])]


@pytest.mark.parametrize("key", ["capture_scalar_outputs", "capture_dynamic_output_shape_ops"])
def test_what_captures_unbacked_sizes_stays_where_there_are_some(key):
    config = ((("torch._dynamo.config", key, True)), CONFIG[0])
    unbacked = 'x: float32[2]\ny: int64[0 @ "u0"] = torch.nonzero(x)\nreturn y,'
    assert names("config", case_of(unbacked, state=State(config=config))) == ["torch._dynamo.config.verbose"]
    assert len(names("config", with_state(config=config))) == 2


@pytest.mark.parametrize(
    ("name", "field", "pairs"),
    [
        ("switches", "switches", (("deterministic", True), ("default_device", "meta"))),
        ("environment", "environment", (("TORCH_LOGS", "+aot"), ("CXX", "clang"))),
    ],
)
def test_each_switch_and_variable_goes_alone(name, field, pairs):
    found = made(name, with_state(**{field: pairs}))
    assert list(found) == [pair[0] for pair in pairs]
    assert [case.state for (case,) in found.values()] == [State(**{field: pairs[1:]}), State(**{field: pairs[:1]})]


def test_autocast_and_the_default_dtype_go_alone():
    state = State(autocast=(("cpu", "bfloat16"),), default_dtype="float64", grad=False)
    found = made("ambient", case_of(TEXT, state=state))
    assert found["autocast"][0].state == replace(state, autocast=())
    assert found["default dtype"][0].state == replace(state, default_dtype="float32")


def odd_inputs():
    case = with_state(grad=False, inference=True)
    tensor, number = case.inputs
    return replace(case, inputs=(replace(tensor, leaf=False, parameter=True, inference=True), number))


def test_grad_and_inference_go_together_or_one_by_one():
    case = odd_inputs()
    tensor, number = case.inputs
    found = {name: (each.inputs[0], each.state) for name, (each,) in made("grad", case).items()}
    without = replace(tensor, meta=replace(tensor.meta, requires_grad=False))
    assert found == {
        "requires_grad and no_grad": (replace(without, leaf=True, parameter=False, inference=False), State()),
        "leaves": (replace(tensor, leaf=True), case.state),
        "inference mode": (replace(tensor, inference=False), State(grad=False)),
        "inputs made in inference mode": (replace(tensor, inference=False), case.state),
    }
    assert all(each.inputs[1] == number for (each,) in made("grad", case).values())


@pytest.mark.parametrize(
    ("inputs_require", "mode", "name"),
    [(True, True, "requires_grad"), (False, False, "no_grad"), (True, False, "requires_grad and no_grad")],
)
def test_the_row_of_gradients_names_what_it_changes(inputs_require, mode, name):
    case = with_state(grad=mode)
    tensor, number = case.inputs
    tensor = replace(tensor, meta=replace(tensor.meta, requires_grad=inputs_require))
    assert names("grad", replace(case, inputs=(tensor, number)))[0] == name


def test_gradients_stay_where_a_backward_pass_or_an_autograd_function_needs_them():
    rest = ["leaves", "inference mode", "inputs made in inference mode"]
    assert names("grad", replace(odd_inputs(), backward=True)) == rest
    function = TEXT.replace("return y", "z = torch.ops.higher_order.autograd_function_apply(y)\nreturn z")
    assert names("grad", case_of(function)) == rest


BACKEND = BackendReference("acme", BackendSource.REGISTERED, mode="fast", dynamic=True)


def test_options_go_one_by_one_and_none_are_none():
    found = made("options", case_of(TEXT, backend=replace(BACKEND, options={"level": 3, "debug": True})))
    assert list(found) == ["option level", "option debug", "mode=", "dynamic="]
    assert [found[f"option {key}"][0].backend.options for key in ("level", "debug")] == [{"debug": True}, {"level": 3}]
    assert found["mode="][0].backend.mode is None and found["dynamic="][0].backend.dynamic is None
    one = case_of(TEXT, backend=replace(BACKEND, options={"level": 3}))
    assert made("options", one)["option level"][0].backend == replace(BACKEND, options=None)


def test_dynamic_stays_where_a_number_is_symbolic():
    symbolic = TEXT.replace("n: 5", 'n: 5 @ "s0"')
    assert names("options", case_of(symbolic, backend=BACKEND, symbolic=Symbolic.AUTOMATIC)) == ["mode="]
