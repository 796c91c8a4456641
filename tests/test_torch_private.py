"""Each private API of torch that is used, used: a release of torch that changes one fails here, by name."""

import ast
import inspect
import os
import warnings
from pathlib import Path

import pytest
import torch
from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module

from minifier.flow.known_backends import loaded_entry_point
from minifier.torch_side import torch_private as private

X = torch.ones(2, 3)


def passing(gm, example_inputs, **_):
    return gm.forward


def test_every_function_has_a_test_here():
    own = [f for f in vars(private).values() if inspect.isfunction(f) and f.__module__.startswith(private.__name__)]
    public = {f.__name__ for f in own if not f.__name__.startswith("_")}
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_torch_private*.py")]
    used = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert public - used == set() and public


def test_dynamos_own_protocol_is_no_failure():
    from torch._dynamo import exc

    stop = torch.utils.checkpoint._StopRecomputationError
    for kind in (exc.RestartAnalysis, exc.SkipFrame, exc.Unsupported, stop, KeyboardInterrupt):
        assert not private.is_failure(kind.__new__(kind))
    assert private.is_failure(RuntimeError()) and private.is_failure(
        exc.BackendCompilerFailed(passing, KeyError(), None)
    )


def test_what_is_read_at_a_call_of_torch_compile_is_known_when_the_backend_is_called():
    found = []

    def noting(gm, example_inputs):
        return gm.forward

    torch._dynamo.reset()
    end_watching = private.observe_backend_calls(
        lambda compiler_fn, gm, inputs, call: found.append(private.asked_backend(compiler_fn).noted) or call()
    )
    end = private.note_at_compile(lambda backend: backend.__name__)
    torch.compile(torch.sin, backend=noting)(X)
    end()
    torch.compile(torch.cos, backend=noting)(X)
    end_watching()
    assert found == ["noting", None]


def test_the_wrapper_around_a_backends_error_comes_off():
    def failing(gm, example_inputs):
        raise LookupError("no lowering")

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(torch.sin, backend=failing)(X)
    inner = private.backend_error(caught.value)
    assert type(inner) is LookupError and str(inner) == "no lowering" and inner.__traceback__ is not None
    assert private.backend_error(inner) is inner


def test_a_symbolic_number_has_its_hint():
    seen = []

    def backend(gm, example_inputs):
        seen.extend(example_inputs)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(lambda x: x * x.shape[0], backend=backend, dynamic=True)(torch.ones(7, 3))
    symbols = [value for value in seen if isinstance(value, torch.SymInt)]
    assert symbols and 7 in {private.as_hint(value) for value in symbols}
    assert all(type(private.as_hint(value)) is int for value in symbols)
    assert private.as_hint(3) == 3 and private.as_hint("x") == "x"


def test_storages_are_told_apart_real_and_fake():
    def check(tensor):
        assert private.storage_key(tensor) == private.storage_key(tensor[0]) == private.storage_key(tensor.t())
        assert private.storage_key(tensor) != private.storage_key(tensor * 2)

    check(X)
    mode = private.new_fake_mode()
    with mode:
        check(mode.from_tensor(X))
    assert private.storage_key(torch.eye(2).to_sparse()) is None


def watched(work):
    """(compiler functions seen, what `work` gives) with the hook in place; for a child."""
    seen = []

    def observe(compiler_fn, gm, example_inputs, call):
        ops = [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
        seen.append((compiler_fn, ops, [type(value).__name__ for value in example_inputs]))
        return call()

    private.observe_backend_calls(observe)
    torch._dynamo.reset()
    return seen, work()


def test_every_backend_call_is_observed_once_and_goes_on(forked):
    def work():
        def f(x):
            x = torch.sin(x)
            torch._dynamo.graph_break()
            return torch.cos(x)

        seen, result = watched(lambda: torch.compile(f, backend="eager")(X))
        return [(ops, kinds) for _, ops, kinds in seen], torch.equal(result, torch.cos(torch.sin(X)))

    calls, right = forked(work)
    assert right and [kinds for _, kinds in calls] == [["Tensor"], ["Tensor"]]
    assert ["sin" in str(calls[0][0]), "cos" in str(calls[1][0])] == [True, True]


def test_what_dynamo_calls_of_a_module_whose_code_is_not_written_yet():
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.sin, (graph.placeholder("x"),)),))
    with _use_lazy_graph_module(True):
        lazy = _make_graph_module(torch.nn.Module(), graph)
    method = lazy.forward
    assert method.__name__ == "_lazy_forward" and private.as_dynamo_takes(method).__name__ == "forward"
    assert torch.equal(private.as_dynamo_takes(method)(X)[0], torch.sin(X))
    assert private.as_dynamo_takes(torch.sin) is torch.sin


def test_the_graph_up_to_the_op_at_which_tracing_fails(forked):
    def work():
        found = []
        private.observe_tracing(lambda compiler_fn, find_graph: found.append(find_graph()))

        def breaks(x):
            torch._dynamo.graph_break()
            return torch.cos(x)

        def fails(x):
            return torch.cov(torch.sin(x), aweights=x[0]).cos()

        def catches(x):
            try:
                return fails(x)
            except RuntimeError:
                return {}[0]

        messages = []
        torch.compile(breaks, backend="eager")(X)
        try:
            torch.compile(fails, backend="eager", dynamic=True)(torch.rand(2, 3))
        except RuntimeError:
            torch.compile(torch.cos, backend="eager")(X)  # another exception is being handled
        for no_op in (lambda x: torch.sin(x) + {}[0], catches):
            try:
                torch.compile(no_op, backend="eager", fullgraph=True, dynamic=True)(torch.rand(2, 3))
            except Exception as error:
                messages.append(str(error))
        return messages, [
            graph and ([str(node.target) for node in graph.module.graph.nodes][-2:], list(map(type, graph.inputs)))
            for graph in found
        ]

    (_, message), (at_op, at_no_op, after_op) = forked(work)
    assert "cov" in at_op[0][0] and at_op[0][1] == "output" and torch.Tensor in at_op[1]
    assert at_no_op is None
    assert (after_op is None) == ("KeyError" in message)  # torch 2.13 and earlier do not let a script catch it


def test_what_was_asked_for_is_read_off_whatever_dynamo_holds(forked):
    def named(gm, example_inputs, *, options=None, mode=None):
        return gm.forward

    class Engine:
        def compile(self, gm, example_inputs):
            return gm.forward

    def work():
        from torch._dynamo.backends.distributed import DDPOptimizer

        def asked(compile):
            torch._dynamo.reset()
            start = len(log)
            compile()(X)
            ((compiler_fn, *_),) = log[start:]
            return told(compiler_fn)

        def told(compiler_fn):
            found = private.asked_backend(compiler_fn)
            return found.name, found.function is named, found.mode, found.options, found.dynamic

        log, _ = watched(lambda: None)
        inner = torch._TorchCompileWrapper(named, None, {"a": 1}, None)
        return [
            asked(lambda: torch.compile(torch.sin, backend=named)),
            asked(lambda: torch.compile(torch.sin, backend=named, options={"a": 1})),
            asked(lambda: torch.compile(torch.sin, backend=named, dynamic=True)),
            asked(lambda: torch.compile(torch.sin, backend="eager")),
            asked(lambda: torch.compile(torch.sin, backend=Engine().compile)),
            asked(lambda: torch._dynamo.optimize(named)(torch.sin)),
            told(DDPOptimizer(bucket_bytes_cap=2**30, backend_compile_fn=inner).compile_fn),
            told(torch._TorchCompileInductorWrapper("max-autotune", None, None)),
            told(torch._TorchCompileInductorWrapper(None, {"max_fusion_size": 3}, True)),
        ]

    assert forked(work) == [
        ("named", True, None, None, None),
        ("named", True, None, {"a": 1}, None),
        ("named", True, None, None, True),
        ("eager", False, None, None, None),
        ("Engine.compile", False, None, None, None),
        ("named", True, None, None, None),
        ("named", True, None, {"a": 1}, None),
        ("inductor", False, "max-autotune", None, None),
        ("inductor", False, None, {"max_fusion_size": 3}, True),
    ]


def test_a_compiler_is_what_torch_compile_would_hand_to_dynamo():
    given = []

    def backend(gm, example_inputs, *, options=None):
        given.append((len(example_inputs), options))
        return gm.forward

    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    compiled = private.compiler_for(backend, None, {"a": 1}, None)(module, [X])
    assert given == [(1, {"a": 1})] and torch.equal(compiled(X), X)
    assert isinstance(private.compiler_for("inductor", None, None, None), torch._TorchCompileInductorWrapper)
    assert torch.equal(private.compiler_for("eager", None, None, None)(module, [X])(X), X)
    with pytest.raises(Exception, match="nowhere_to_be_found"):
        private.compiler_for("nowhere_to_be_found", None, None, None)


def test_arguments_of_aot_autograd_are_had_back():
    from torch._dynamo.backends.common import aot_autograd

    assert private.aot_autograd_arguments(aot_autograd(fw_compiler=passing)) == {"fw_compiler": passing}
    assert private.aot_autograd_arguments(passing) is None


def test_who_registered_a_backend_or_defined_an_operator_is_known(forked):
    def work():
        assert private.registration_stack("surely_new") == private.operator_stack("surelynew::same") == ()
        private.note_registrations()
        private.note_registrations()

        def register_it():
            torch._dynamo.register_backend(passing, name="surely_new")
            schema = "(Tensor x) -> Tensor"
            torch.library.custom_op("surelynew::same", lambda x: x.clone(), mutates_args=(), schema=schema)

        register_it()
        stacks = private.registration_stack("surely_new"), private.operator_stack("surelynew::same")
        return stacks, private.registered_names(passing), private.registered_names(register_it)

    stacks, names, none = forked(work)
    for stack in stacks:
        assert stack.index((__name__, "register_it")) < stack.index((__name__, "work"))
    assert names == ["surely_new"] and none == []


def test_entry_points_are_found_and_loaded(forked):
    def work():
        rows = {name: (function, point) for name, function, point in private.backend_table()}
        point = private.entry_point_of("faulty_installed")
        assert private.entry_point_of("eager") is None
        assert "inductor" in rows and "eager" in rows and rows["faulty_installed"][1] == point
        function, problem = loaded_entry_point(point)
        torch._dynamo.lookup_backend("faulty_installed")
        assert private.entry_point_of("faulty_installed") == point, "forgotten once loaded"
        return point.value, point.dist.name, callable(function), problem

    assert forked(work) == ("minifier_backends.installed:faulty_installed", "minifier-backends", True, "")


def test_configuration_is_read_set_and_compared(forked):
    def work():

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = private.config_values()
        key = ("torch._dynamo.config", "raise_on_ctx_manager_usage")
        assert key in before and before[key] is True and private.is_default_config(*key)
        assert ("torch._inductor.config", "max_autotune") in before
        assert ("torch._functorch.config", "enable_autograd_cache") in before
        private.set_config(*key, False)
        after = private.config_values()
        assert after[key] is False and not private.is_default_config(*key)
        return [k for k in before if before[k] != after[k]]

    assert forked(work) == [("torch._dynamo.config", "raise_on_ctx_manager_usage")]


@pytest.mark.parametrize(
    ("module", "key", "error"),
    [("torch._dynamo.config", "no_such_key", AttributeError), ("no.such.module", "key", ImportError)],
)
def test_a_value_that_this_torch_does_not_have_is_an_error(module, key, error):
    with pytest.raises(error):
        private.set_config(module, key, 1)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_fake_tensor_made_directly_is_one_of_the_modes(device):
    mode = private.new_fake_mode()
    made = private.fake_tensor(mode, (3, 2), (1, 3), torch.bfloat16, device)
    assert (made.shape, made.stride(), made.dtype, str(made.device)) == ((3, 2), (1, 3), torch.bfloat16, device)
    with mode:
        usual = torch.empty_strided((3, 2), (1, 3), dtype=torch.bfloat16, device="cpu")
    assert type(made) is type(usual) and made.fake_mode is usual.fake_mode is mode
    if device == "cpu":
        assert torch.sin(made).shape == torch.sin(usual).shape == (3, 2)
        with pytest.raises(AssertionError):
            made + X.t()  # a real tensor is refused, as under Dynamo


def test_inductor_compiles_in_this_process_and_from_no_cache(forked):
    def work():
        import torch._functorch.config as functorch_config
        import torch._inductor.config as inductor_config

        before = inductor_config.fx_graph_cache
        private.compile_in_this_process()
        assert (inductor_config.compile_threads, inductor_config.fx_graph_cache) == (1, before)
        private.tame_inductor()
        return (
            inductor_config.compile_threads, inductor_config.fx_graph_cache,
            inductor_config.fx_graph_remote_cache, functorch_config.enable_autograd_cache,
        )  # fmt: skip

    assert forked(work) == (1, False, False, False)


def test_the_compiled_headers_are_where_inductor_puts_them(forked, tmp_path):
    def work():
        import os
        import tempfile

        os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path)
        os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
        private.inductor_folder.cache_clear()
        first = private.inductor_headers()
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        os.makedirs(os.path.join(default_cache_dir(), "precompiled_headers"))
        return first, private.inductor_headers(), private.inductor_folder()

    first, second, folder = forked(work)
    assert first is None and second == folder and folder.is_relative_to(tmp_path)


def test_symbols_made_anew_are_those_that_were_seen():
    """What is read off Dynamo's example values is what fake tensors made with it say of themselves."""
    seen = []

    def backend(gm, example_inputs):
        examples = [node.meta["example_value"] for node in gm.graph.find_nodes(op="placeholder")]
        seen.append(
            (
                private.symbols_of(examples),
                private.assumes_dynamic(),
                private.marked_dims(example_inputs[-1]),
            )
        )
        seen.append([private.expression_of(size) for size in examples[-1].shape])
        return gm.forward

    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0, min=3, max=40)
    torch._dynamo.reset()
    torch.compile(torch.sin, backend=backend)(x)
    torch._dynamo.reset()
    torch.compile(torch.sin, backend=backend, dynamic=True)(torch.ones(4, 3))
    torch._dynamo.reset()
    assert seen[0][1:] == (False, frozenset({0})) and seen[0][0][0][1:] == (4, 3, 40)
    assert seen[1][1] is None and seen[2][1:] == (True, frozenset())
    sizes = private.SymbolicSizes()
    fake = sizes.tensor("x", x, [sizes.size("s5", 4, duck=False, low=3, high=40), 3])
    assert private.symbols_of([fake]) == [("s5", 4, 3, 40)] and [
        private.expression_of(size) for size in fake.shape
    ] == ["s5", None]
    assert private.expression_of(7) is None and private.assumes_dynamic() is False


def test_a_dimension_that_is_marked_static_is_fixed_under_dynamic_true():
    shapes = []

    def backend(gm, example_inputs):
        shapes.extend(node.meta["example_value"].shape for node in gm.graph.find_nodes(op="placeholder")[1:])
        return gm.forward

    x = torch.ones(4, 3)
    private.mark_static(x, [1])
    torch._dynamo.reset()
    torch.compile(torch.sin, backend=backend, dynamic=True)(x)
    torch._dynamo.reset()
    assert [type(size) for size in shapes[0]] == [torch.SymInt, int]


def test_a_graph_is_traced_with_symbols_as_dynamo_traces_it():
    sizes = private.SymbolicSizes()
    n, m = sizes.size("s3", 4, duck=True), sizes.number("s9", 4)
    x = torch.ones(4, 3)
    graph = torch.fx.Graph()
    first, second, tensor = (graph.placeholder(name) for name in ("s3", "s9", "x"))
    scaled = graph.call_function(torch.mul, (tensor, second))
    flat = graph.call_method("reshape", (scaled, -1))
    graph.output((flat,))
    module = private.graph_module(torch.nn.Module(), graph)
    sizes.trace(module, [n, m, sizes.tensor("x", x, [n, 3])])
    assert private.expression_of(flat.meta["example_value"].shape[0]) == "3*s3" and private.expression_of(m) == "s9"
    assert first.meta["example_value"] is n
    assert private.expression_of(sizes.unbacked("u0")) == "u0"


def test_nobody_asks_for_a_device_that_torch_was_built_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)  # there is no NVML
    question = torch.cuda.is_available
    with private.imports_refused_devices(), pytest.raises(ImportError):
        torch.cuda.is_available()
    assert torch.cuda.is_available is question
    with private.asking_nvml() as answers:
        assert not answers


def test_nvml_tells_which_devices_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 2)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: pytest.fail("the driver was asked"), raising=False)
    with private.imports_refused_devices():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 2
        with pytest.raises(ImportError):
            torch.cuda._lazy_init()
    with private.asking_nvml() as answers:
        assert answers and torch.cuda.is_available()
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ


def test_aotautograd_takes_sizes_for_numbers_where_the_context_says_so():
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    shapes = []

    def compiler(gm, inputs):
        shapes.extend(tuple(map(private.expression_of, value.shape)) for value in inputs)
        return make_boxed_func(gm.forward)

    backend = aot_autograd(fw_compiler=compiler)
    base = torch.ones(6, 3)
    inputs = [torch.ones(4, 3), base[1:5]]
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output((graph.call_function(torch.add, (x, y)),))
    made = {id(inputs[0]): private.static_context(inputs[0], private.local_source("x"))}
    with private.as_dynamo_calls(private.new_fake_mode(), inputs, made):
        compiled = backend(private.graph_module(torch.nn.Module(), graph), inputs)
    assert shapes == [(None, None)] * 2 and torch.equal(compiled(*inputs)[0], torch.full((4, 3), 2.0))
    context = private.static_context(inputs[1], private.local_source("y"))
    assert (context.view_base_context is not None) == inputs[1]._is_view()


def drawing(x):
    return torch.nn.functional.dropout(x * 2, 0.5), torch.rand(3, dtype=x.dtype), torch.multinomial(x.softmax(-1), 2)


def test_draws_are_noted_and_given_again_in_double_precision():
    draws = []
    with private.noting_draws(draws):
        noted = drawing(X)
    assert len(draws) == 3
    torch.manual_seed(1)
    with private.giving_draws(draws):
        given = drawing(X.double())
    for a, b in zip(noted, given, strict=True):
        assert torch.equal(a, b.to(a.dtype)) and b.dtype in (torch.float64, torch.int64)
    with pytest.raises(private.OtherDraws), private.giving_draws(draws):
        torch.randn(3)
    with pytest.raises(private.OtherDraws), private.giving_draws([]):
        drawing(X)


def test_what_is_left_open_shows():
    usual = torch.topk(torch.ones(5), 2).indices
    with private.unsettled():
        assert torch.empty(3).isnan().all() and torch.empty_like(X).isnan().all() and X.new_empty(2).isnan().all()
        assert torch.empty(2, dtype=torch.int64).tolist() == [1, 1]
        assert torch.zeros(2).tolist() == [0, 0] and (X + 1).tolist() == [[2] * 3] * 2
        noisy, moved = X * 0.3, torch.full((50,), 0.5)
        assert (torch.topk(torch.ones(5), 2).indices + usual).tolist() == [4, 4]
        assert torch.tensor([1.0, 3.0, 1.0]).sort().indices.tolist() == [2, 0, 1]
        assert torch.tensor([[3.0, 1.0, 2.0]]).median(1).indices.tolist() == [2]
    eps = torch.finfo(torch.float32).eps
    assert ((noisy / 0.3 - 1).abs() / eps).round().unique().tolist() == [1]
    private.move(moved, 4, seed=1)
    assert sorted((moved / 0.5 - 1).div(eps).unique().tolist()) == [-4, 4]


def test_a_launch_of_a_kernel_runs_it_with_what_it_was_given():
    class Doubled:
        """As Triton's kernels are to torch."""

        arg_names = ("x_ptr", "out_ptr", "n")

        def __getitem__(self, grid):
            return lambda x, out, n: out.copy_(x * 2 + n + grid[0])

    graph = torch.fx.Graph()
    x, out = graph.placeholder("x"), graph.placeholder("out")
    kernel = Doubled()
    kwargs = private.numbered_launch(kernel, {"out_ptr": out, "n": 3, "x_ptr": x}, [(5, 1, 1)])
    graph.create_node("call_function", private.LAUNCH, (), kwargs)
    graph.output(())
    assert private.kernel_of(kwargs) is kernel
    assert private.kernel_arguments(kwargs) == {"x_ptr": x, "out_ptr": out, "n": 3}
    result = torch.zeros(2)
    private.graph_module(torch.nn.Module(), graph)(torch.ones(2), result)
    assert result.tolist() == [10.0, 10.0]


def test_a_launch_keeps_no_arguments_that_the_tool_does_not_know(monkeypatch):
    """torch 2.15 has `launch_kwargs`."""

    class Launch:
        def __call__(self, kernel_idx, constant_args_idx, grid, tma_descriptor_metadata, kwargs, launch_kwargs, **_):
            return launch_kwargs

    monkeypatch.setattr(private.inductor, "LAUNCH", Launch())
    kwargs = private.numbered_launch(object(), {}, [(1, 1, 1)])
    assert Launch()(**kwargs) == {} and private.unknown_arguments(kwargs) == []
    assert private.unknown_arguments({**kwargs, "launch_kwargs": {"num_ctas": 2}}) == ["launch_kwargs"]


@pytest.mark.parametrize(
    ("function", "path"),
    [
        (torch.ops.aten.tanh.default, "torch.ops.aten.tanh.default"),
        (torch.ops.aten.tanh, "torch.ops.aten.tanh"),
        (torch.ops.higher_order.cond, "torch.ops.higher_order.cond"),
        (private.LAUNCH, "torch.ops.higher_order.triton_kernel_wrapper_mutation"),
        (torch.tanh, None),
    ],
)
def test_an_operator_has_a_path(function, path):
    assert private.operator_path(function) == path


def test_the_arguments_that_an_operator_writes_to():
    assert private.arguments_of(torch.ops.aten.relu_)[0] == ("self", True)
    assert ("out", True) in private.arguments_of(torch.ops.aten.add.out)
    assert not any(written for _, written in private.arguments_of(torch.ops.aten.add.Tensor))
    assert private.arguments_of(torch.relu) == []


def test_ops_of_fake_tensors_ask_for_no_device_where_they_must_not(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(asked.append(1)))
    mode = private.new_fake_mode()
    fake = mode.from_tensor(torch.ones(2, requires_grad=True))
    with private.asking_for_no_device(), mode:
        assert fake.clone().grad_fn is not None and asked == []
    with mode:
        fake.clone()
    assert asked


def test_what_ops_are_made_of():
    """What the pass stands on: torch's own table."""

    def targets(function, *inputs):
        return {
            str(node.target) for node in private.parts_of(function, inputs).graph.nodes if node.op == "call_function"
        }

    assert targets(lambda x: torch.softmax(x, -1), X) > {"aten.amax.default", "aten.sub.Tensor", "aten.exp.default"}
    assert targets(torch.tanh, X) == {"aten.tanh.default"}
