"""Torch's private interfaces: each is here, and those whose change no whole run would notice do what is needed.

Interfaces that are declared with `stands_on` are in test_interfaces.py. Names that are imported fail there.
"""

import functools
import importlib
import inspect
import os

import pytest
import torch
from torch._dynamo.utils import counters
from torch._guards import CompileContext
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module
from torch.overrides import TorchFunctionMode

from minifier.torch_side.interfaces import TORCH
from minifier.torch_side.torch_private import dynamo, graphs, inductor, modes
from minifier.torch_side.torch_private.graphs import wrong_fake_kernel

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


def test_a_launch_keeps_no_arguments_that_the_tool_does_not_know(monkeypatch):
    """torch 2.15 has `launch_kwargs`."""

    class Launch:
        def __call__(self, kernel_idx, constant_args_idx, grid, tma_descriptor_metadata, kwargs, launch_kwargs, **_):
            return launch_kwargs

    monkeypatch.setattr(inductor, "LAUNCH", Launch())
    kwargs = inductor.numbered_launch(object(), {}, [(1, 1, 1)])
    assert Launch()(**kwargs) == {} and inductor.unknown_arguments(kwargs) == []
    assert inductor.unknown_arguments({**kwargs, "launch_kwargs": {"num_ctas": 2}}) == ["launch_kwargs"]


def test_a_value_that_a_variable_forces_is_set_all_the_same(forked):
    def work():
        config = importlib.import_module("torch._dynamo.config")
        config._config["suppress_errors"].env_value_force = True
        config.suppress_errors = False
        before = config.suppress_errors
        modes.set_config("torch._dynamo.config", "suppress_errors", False)
        return before, config.suppress_errors

    assert forked(work) == (True, False)


def test_dynamo_has_compiled_nothing_after_it_was_warmed_up(forked):
    def work():
        dynamo.warm_up_dynamo()
        ids, counted = [], dict(counters)

        def backend(gm, inputs):
            ids.append(str(CompileContext.current_compile_id()))
            return gm

        torch.compile(lambda x: x + 1, backend=backend)(X)
        return ids, counted

    assert forked(work) == (["0/0"], {})


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


@torch.library.custom_op("minifier_tests::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


turned.register_fake(torch.empty_like)


def test_a_fake_kernel_that_gives_other_sizes_is_seen_and_ops_of_torch_are_not_looked_at():
    op, how = wrong_fake_kernel(lambda: turned(X + 1))
    assert op == "minifier_tests.turned" and "[3, 2]" in how and "[2, 3]" in how
    right = lambda: turned(torch.ones(3, 3)), lambda: torch.relu(X), lambda: X + torch.ones(99)
    assert [wrong_fake_kernel(call) for call in right] == [("", "")] * 3
