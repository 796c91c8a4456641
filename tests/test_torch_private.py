"""Torch's private interfaces: each is here, and those whose change no whole run would notice do what is needed.

Interfaces that are declared with `stands_on` are in test_interfaces.py. Names that are imported fail there.
"""

import functools
import importlib
import inspect
import os

import pytest
import torch
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.overrides import TorchFunctionMode

from minifier.torch_side.interfaces import TORCH
from minifier.torch_side.torch_private import autograd, dynamo, graphs, inductor, modes

X = torch.ones(2, 3)

_SYMBOLS, _FAKE, _GUARDS = "torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor", "torch._guards"
_KERNELS = "torch._higher_order_ops.triton_kernel_wrap"
# (module, name, parameters of a function or class that are given by name, or None for an attribute) of what is used
# of imported objects, or as a text.
USED = [
    (_SYMBOLS, "ShapeEnv", ("tracked_fakes",)),
    (_SYMBOLS, "ShapeEnv.create_symbol", ()),
    (_SYMBOLS, "ShapeEnv.create_symintnode", ("hint",)),
    (_SYMBOLS, "ShapeEnv.create_unspecified_symint_and_symbol", ()),
    (_SYMBOLS, "ShapeEnv.create_unbacked_symint", ()),
    (_SYMBOLS, "ShapeEnv.ignore_fresh_unbacked_symbols", ()),
    (
        _SYMBOLS,
        "StatefulSymbolicContext",
        ("dynamic_sizes", "view_base_context", "tensor_source", "shape_env_to_source_to_symbol_cache"),
    ),
    (_SYMBOLS, "constrain_range", ("min", "max")),
    (_SYMBOLS, "compute_unbacked_bindings", ()),
    ("torch.fx.experimental.sym_node", "SymNode.has_hint", ()),
    ("torch.fx.experimental.sym_node", "SymNode.hint", None),
    ("torch.fx.experimental.sym_node", "SymNode.expr", None),
    (_FAKE, "FakeTensorMode", ("shape_env", "export", "allow_non_fake_inputs")),
    (_FAKE, "FakeTensorMode.from_tensor", ("source", "symbolic_context", "static_shapes")),
    (_GUARDS, "CompileId", ("frame_id", "frame_compile_id")),
    (_GUARDS, "CompileContext.current_compile_id", ()),
    (_GUARDS, "TracingContext.get", ()),
    ("torch._dynamo.output_graph", "GraphCompileReason", ("graph_break",)),
    ("torch._dynamo.source", "LocalSource", ("is_input",)),
    ("torch._dynamo.variables.builder", "GraphArg", ("is_tensor", "example_strong_ref")),
    (_KERNELS, "kernel_side_table.add_kernel", ()),
    (_KERNELS, "kernel_side_table.get_kernel", ()),
    (_KERNELS, "kernel_side_table.add_constant_args", ()),
    (_KERNELS, "kernel_side_table.get_constant_args", ()),
    ("torch.export", "ExportedProgram.module", ("check_guards",) if TORCH >= (2, 9) else ()),
    ("torch._inductor.compile_fx", "_recursive_joint_graph_passes", ()),
    ("torch._inductor.compile_fx", "_recursive_pre_grad_passes", ()),
    ("torch._inductor.compile_fx", "_InProcessFxCompile.codegen_and_compile", ()),
    ("torch._dynamo.backends.distributed", "DDPOptimizer", ("bucket_bytes_cap", "backend_compile_fn")),
]


@pytest.mark.parametrize(("module", "name", "parameters"), USED, ids=lambda value: value if "." in str(value) else "")
def test_what_is_used_of_torch_is_there(module, name, parameters):
    found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    if parameters is not None:
        assert callable(found) and {*parameters} <= {*inspect.signature(found).parameters}


def passing(gm, example_inputs, **_):
    return gm.forward


def test_dynamos_own_protocol_is_no_failure():
    from torch._dynamo import exc

    stop = torch.utils.checkpoint._StopRecomputationError
    for kind in (exc.RestartAnalysis, exc.SkipFrame, exc.Unsupported, stop, KeyboardInterrupt):
        assert not dynamo.is_failure(kind.__new__(kind))
    assert dynamo.is_failure(RuntimeError()) and dynamo.is_failure(exc.BackendCompilerFailed(passing, KeyError(), None))


def test_what_dynamo_calls_of_a_module_whose_code_is_not_written_yet():
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.sin, (graph.placeholder("x"),)),))
    with _use_lazy_graph_module(True):
        lazy = _make_graph_module(torch.nn.Module(), graph)
    method = lazy.forward
    assert method.__name__ == "_lazy_forward" and dynamo.as_dynamo_takes(method).__name__ == "forward"
    assert torch.equal(dynamo.as_dynamo_takes(method)(X)[0], torch.sin(X))
    assert dynamo.as_dynamo_takes(torch.sin) is torch.sin


def test_what_was_asked_for_is_read_off_dynamos_wrappers():
    from torch._dynamo.backends.distributed import DDPOptimizer

    def told(compiler_fn):
        found = dynamo.asked_backend(compiler_fn)
        return found.name, found.function is passing, found.mode, found.options, found.dynamic

    inner = torch._TorchCompileWrapper(passing, None, {"a": 1}, None)
    split = DDPOptimizer(bucket_bytes_cap=2**30, backend_compile_fn=inner).compile_fn
    assert told(split) == ("passing", True, None, {"a": 1}, None)
    inductor = torch._TorchCompileInductorWrapper
    end = dynamo.observe_backend_calls(lambda compiler_fn, gm, inputs, call: call())
    assert told(inductor("max-autotune", None, None)) == ("inductor", False, "max-autotune", None, None)
    assert told(inductor(None, {"max_fusion_size": 3}, True)) == ("inductor", False, None, {"max_fusion_size": 3}, True)
    end()


def test_a_fake_tensor_made_directly_is_one_of_the_modes():
    mode = graphs.new_fake_mode()
    made = graphs.fake_tensor(mode, (3, 2), (1, 3), torch.bfloat16, "cuda:0")
    assert (made.shape, made.stride(), made.dtype, str(made.device)) == ((3, 2), (1, 3), torch.bfloat16, "cuda:0")
    assert made.fake_mode is mode and type(made) is type(mode.from_tensor(X))
    with pytest.raises(AssertionError):
        graphs.fake_tensor(mode, (2, 3), (3, 1), torch.float32, "cpu") + X  # a real tensor is refused, as under Dynamo


def test_nobody_asks_for_a_device_that_torch_was_built_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)  # there is no NVML
    question = torch.cuda.is_available
    with modes.imports_refused_devices(), pytest.raises(ImportError):
        torch.cuda.is_available()
    assert torch.cuda.is_available is question
    with modes.asking_nvml() as answers:
        assert not answers


def test_nvml_tells_which_devices_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: pytest.fail("the driver was asked"), raising=False)
    with modes.imports_refused_devices():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 2
        with pytest.raises(ImportError):
            torch.cuda._lazy_init()
    with modes.asking_nvml() as answers:
        assert answers and torch.cuda.is_available()
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ


def test_ops_of_fake_tensors_ask_for_no_device_where_they_must_not(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(asked.append(1)))
    mode = graphs.new_fake_mode()
    fake = mode.from_tensor(torch.ones(2, requires_grad=True))
    with graphs.asking_for_no_device(), mode:
        assert fake.clone().grad_fn is not None and asked == []
    with mode:
        fake.clone()
    assert asked


def test_a_launch_keeps_no_arguments_that_the_tool_does_not_know(monkeypatch):
    """torch 2.15 has `launch_kwargs`."""

    class Launch:
        def __call__(self, kernel_idx, constant_args_idx, grid, tma_descriptor_metadata, kwargs, launch_kwargs, **_):
            return launch_kwargs

    monkeypatch.setattr(inductor, "LAUNCH", Launch())
    kwargs = inductor.numbered_launch(object(), {}, [(1, 1, 1)])
    assert Launch()(**kwargs) == {} and inductor.unknown_arguments(kwargs) == []
    assert inductor.unknown_arguments({**kwargs, "launch_kwargs": {"num_ctas": 2}}) == ["launch_kwargs"]


def seen_by_a_backend(function, *args):
    seen = []

    def backend(gm, example_inputs):
        context = torch._guards.TracingContext.get()
        (placeholder,) = gm.graph.find_nodes(op="placeholder")
        facts = {
            "module": (set(gm.meta), {name for name in vars(gm) if name.startswith(("_param_name", "_source_to"))}),
            "placeholder": set(placeholder.meta) - {"stack_trace"},
            "type": placeholder.type,
            "source": str(placeholder._dynamo_source),
            "argument": placeholder.meta["grapharg"].example is example_inputs[0],
            "fake": placeholder.meta["grapharg"].fake_tensor is placeholder.meta["example_value"],
            "one mode": context.fake_mode is placeholder.meta["example_value"].fake_mode,
            "settings": context.fake_mode.shape_env.settings,
            "state": set(context.global_context.global_state),
            "compiling": torch.compiler.is_compiling(),
            "id": str(torch._guards.CompileContext.current_compile_id()),
        }
        seen.append(facts)
        return gm.forward

    function(backend, *args)
    (facts,) = seen
    return facts


def by_dynamo(backend, x):
    torch._dynamo.reset()
    torch.compile(lambda x: torch.sin(x), backend=backend)(x)
    torch._dynamo.reset()


def by_us(backend, x):
    mode = graphs.new_fake_mode()
    graph = torch.fx.Graph()
    node = graph.placeholder("l_x_")
    node.meta["example_value"] = mode.from_tensor(x, static_shapes=True)
    graph.output((graph.call_function(torch.sin, (node,)),))
    module = graphs.complete_module(torch.fx.GraphModule(torch.nn.Module(), graph))
    graphs.add_arguments(module, [x])
    with graphs.as_dynamo_calls(mode, [x]):
        backend(module, [x])


def test_a_backend_sees_the_same_facts_as_when_dynamo_calls_it():
    x = torch.randn(4)
    assert seen_by_a_backend(by_us, x) == seen_by_a_backend(by_dynamo, x)
    assert not torch.compiler.is_compiling()


def test_outputs_are_taken_by_their_positions():
    two = (torch.ones(1), torch.zeros(1))
    assert dynamo.outputs_dynamo_takes([*two, None], two) == two
    (first,) = dynamo.outputs_dynamo_takes(torch.tensor([[1.0], [2.0]]), two[:1])
    assert first.tolist() == [1.0], "of a tensor in the place of a tuple"
    with pytest.raises(IndexError):
        dynamo.outputs_dynamo_takes(two, (*two, None))


def test_a_value_that_a_variable_forces_is_set_all_the_same(forked):
    def work():
        config = importlib.import_module("torch._dynamo.config")
        config._config["suppress_errors"].env_value_force = True
        config.suppress_errors = False
        before = config.suppress_errors
        modes.set_config("torch._dynamo.config", "suppress_errors", False)
        return before, config.suppress_errors

    assert forked(work) == (True, False)


class Quiet(TorchFunctionMode):
    """A mode of the user's."""


def test_modes_come_off_while_a_backend_is_called_and_while_inputs_are_made():
    def state():
        return torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch.zeros(1).device.type

    with torch.device("meta"), Quiet():
        assert (modes.other_function_modes(), modes.default_device()) == ([f"{__name__}.Quiet"], "meta")
    with torch.inference_mode(), torch.device("meta"):
        with modes.as_while_compiling():
            assert state() == (False, False, "cpu")
        with modes.without_modes():
            assert state() == (False, True, "cpu") and not torch.zeros(1).is_inference()
        assert state() == (True, False, "meta")
    with modes.as_while_compiling():
        assert torch.is_grad_enabled()


def test_transforms_that_were_left_open_are_ended():
    def begun():
        torch._C._functorch._vmap_increment_nesting(2, "error")
        torch._C._functorch._grad_increment_nesting()
        torch._C._functorch._jvp_increment_nesting()
        torch._C._set_fwd_grad_enabled(False)
        torch._C._enter_dual_level()
        torch._C._autograd._saved_tensors_hooks_disable("not in here")
        raise ValueError("in the middle")

    for _ in range(2):  # a level that is left open cannot be opened again
        with pytest.raises(ValueError, match="in the middle"), autograd.transforms_ended():
            begun()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0 and torch._C._is_fwd_grad_enabled()
    assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() is None
    with torch.autograd.forward_ad.dual_level():
        with autograd.transforms_ended():
            assert torch.vmap(torch.sin)(torch.zeros(2)).tolist() == [0.0, 0.0]
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert torch.autograd.forward_ad.unpack_dual(dual * 3).tangent.tolist() == [3.0, 3.0]


def test_zeros_of_a_vanishing_derivative_take_no_memory():
    zeros = autograd.zeros_without_memory([2, 3], torch.float64, "cpu")
    assert zeros._is_zerotensor() and zeros.shape == (2, 3) and zeros.dtype is torch.float64
