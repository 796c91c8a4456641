"""AOTAutograd's private APIs that are used, used."""

import gc
import math
import weakref

import pytest
import torch
from functorch.compile import default_partition, make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from vocabulary import in_child

from minifier.torch_side import torch_private as private

pytestmark = pytest.mark.timeout(100)


def boxed(gm, example_inputs):
    return make_boxed_func(gm.forward)


def trained(backend):
    """A step of training through the backend; gives the gradient."""
    x = torch.ones(2, 3, requires_grad=True)
    torch.compile(lambda x: torch.tanh(x).sum(), backend=backend)(x).backward()
    return x.grad


@pytest.mark.usefixtures("processes")
def test_compilers_and_compiled_backwards_are_seen(tmp_path):
    def work():
        seen = []

        def on_compile(token, part, gm, inputs, call):
            targets = {str(node.target) for node in gm.graph.nodes}
            real = private.backward_arguments()
            seen.append((token, part, "aten.tanh_backward.default" in targets, [type(v).__name__ for v in real or ()]))
            return call()

        def on_run(token, args, call):
            seen.append((token, "run", len(args)))
            return call()

        tokens = iter("ab")
        private.observe_aot_compilers(lambda: next(tokens), on_compile, on_run)
        grad = trained(aot_autograd(fw_compiler=boxed, bw_compiler=boxed))
        return seen, torch.equal(grad, torch.full((2, 3), 1 - torch.tanh(torch.tensor(1.0)).item() ** 2)) or grad

    seen, right = in_child(work, tmp_path)
    assert seen == [
        ("a", "aot-forward", False, []),
        ("a", "aot-backward", True, ["Tensor", "Tensor"]),
        ("a", "run", 2),
    ]
    assert right is True


@pytest.mark.usefixtures("processes")
def test_the_graph_of_a_compiler_that_is_left_out_runs_as_it_is(tmp_path):
    def refuses(gm, example_inputs):
        raise RuntimeError("this compiler is never called")

    def work():
        asked = []

        def choose(_token, part, gm, _inputs, call):
            asked.append((part, private.name_of_compiler(call.func)))
            return private.boxed_graph(gm) if part == "aot-backward" else call()

        private.observe_aot_compilers(lambda: None, choose)
        grad = trained(aot_autograd(fw_compiler=boxed, bw_compiler=refuses))
        return asked, grad.tolist()

    asked, grad = in_child(work, tmp_path)
    assert asked == [("aot-forward", "boxed"), ("aot-backward", "refuses")]
    assert grad == [[pytest.approx(1 - math.tanh(1.0) ** 2)] * 3] * 2


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("left_out", [True, False])
def test_a_partition_function_may_be_left_out(tmp_path, left_out):
    def work():
        asked, called = [], []

        def partitions(*args, **kwargs):
            called.append("partitions")
            return default_partition(*args, **kwargs)

        def is_left_out(part, name):
            asked.append((part, name))
            return left_out

        private.choose_partitions(is_left_out)
        grad = trained(aot_autograd(fw_compiler=boxed, partition_fn=partitions))
        trained(aot_autograd(fw_compiler=boxed))
        return asked, called, grad.tolist()

    asked, called, grad = in_child(work, tmp_path)
    assert asked == [("aot-partition", "partitions")], "not asked of torch's default"
    assert called == ([] if left_out else ["partitions"])
    assert grad == [[pytest.approx(1 - math.tanh(1.0) ** 2)] * 3] * 2


@pytest.mark.usefixtures("processes")
def test_a_compiler_for_inference_is_seen_and_what_was_compiled_is_not_kept(tmp_path):
    def work():
        parts, runs, compiled = [], [], []

        def on_compile(token, part, gm, inputs, call):
            made = call()
            parts.append(part)
            compiled.append(weakref.ref(made))
            return made

        def on_run(token, args, call):
            runs.append(token)
            return call()

        private.observe_aot_compilers(lambda: "token", on_compile, on_run)
        backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, inference_compiler=boxed)
        torch.compile(torch.tanh, backend=backend)(torch.ones(2))
        trained(backend)
        alive = [made() is not None for made in compiled]
        torch._dynamo.reset()
        gc.collect()
        return parts, runs, alive[-1], compiled[-1]() is None

    assert in_child(work, tmp_path) == (["aot-inference", "aot-forward", "aot-backward"], ["token"], True, True)


@pytest.mark.usefixtures("soak")
def test_a_backward_that_is_in_the_cache_on_disk_is_compiled_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))

    def step():
        torch._dynamo.reset()  # a child begins with what its parent has compiled and counted
        torch._dynamo.utils.counters.clear()
        x = torch.ones(3, requires_grad=True)
        torch.compile(torch.tanh, backend="inductor")(x).sum().backward()
        return dict(torch._dynamo.utils.counters["aot_autograd"])

    def observed():
        parts, runs = [], []
        private.observe_aot_compilers(
            lambda: "token",
            lambda token, part, gm, inputs, call: parts.append(part) or call(),
            lambda token, args, call: runs.append(token) or call(),
        )
        step()
        seen = list(parts), list(runs)
        return *seen, step()["autograd_cache_hit"], len(parts)

    assert in_child(step, tmp_path, 180)["autograd_cache_miss"] == 1
    assert in_child(step, tmp_path, 180)["autograd_cache_hit"] == 1
    # What this process has compiled is found in the cache, as it is without the hooks.
    assert in_child(observed, tmp_path, 180) == (["aot-forward", "aot-backward"], ["token"], 1, 2)


def test_a_graph_is_copied_with_what_is_known_of_its_nodes():
    gm = torch.fx.symbolic_trace(lambda x: torch.tanh(x) + 1)
    for node in gm.graph.nodes:
        node.meta["val"] = node.name
    copied = private.copied_graph(gm)
    for node in reversed(list(gm.graph.nodes)):
        gm.graph.erase_node(node)
    assert [(node.name, node.op) for node in copied.nodes] == [
        ("x", "placeholder"),
        ("tanh", "call_function"),
        ("add", "call_function"),
        ("output", "output"),
    ]
    assert [node.meta.get("val") for node in copied.nodes][:3] == ["x", "tanh", "add"]
    assert torch.fx.GraphModule(gm, copied)(torch.zeros(2)).tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("backend", ["inductor", aot_autograd(fw_compiler=boxed, bw_compiler=boxed)])
def test_a_backends_compiler_is_caught_at_work(backend, tmp_path):
    def work():
        compiler = private.compiler_for(backend, None, None, None)
        graph = torch.fx.Graph()
        graph.output((graph.call_method("clone", (graph.placeholder("x"),)),))
        small = torch.fx.GraphModule(torch.nn.Module(), graph)

        def call():
            with private.as_dynamo_calls(private.new_fake_mode()):
                compiler(small, [torch.ones(2, requires_grad=True)])

        def use(part):
            return callable(part), torch.zeros(2).tolist()  # a real tensor: no fake mode is left on

        return private.with_aot_compiler(call, "aot-backward", use)

    assert in_child(work, tmp_path) == (True, [0.0, 0.0])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("grad", "expected"), [(True, "for training"), (False, "for inference")])
def test_which_forward_compiler_it_is_depends_on_gradients(grad, expected, tmp_path):
    def training(gm, example_inputs):
        raise AssertionError("for training")

    def inference(gm, example_inputs):
        raise AssertionError("for inference")

    def work():
        backend = aot_autograd(fw_compiler=training, bw_compiler=boxed, inference_compiler=inference)
        graph = torch.fx.Graph()
        graph.output((graph.call_method("clone", (graph.placeholder("x"),)),))
        small = torch.fx.GraphModule(torch.nn.Module(), graph)

        def call():
            with torch.set_grad_enabled(grad), private.as_dynamo_calls(private.new_fake_mode()):
                backend(small, [torch.ones(2, requires_grad=True)])

        def use(part):
            with pytest.raises(AssertionError) as caught:
                part(small, [])
            return str(caught.value)

        return private.with_aot_compiler(call, "aot-forward", use)

    assert in_child(work, tmp_path) == expected


def test_a_backend_without_compilers_is_told():
    with pytest.raises(private.NoCompiler):
        private.with_aot_compiler(lambda: None, "aot-backward", lambda part: part)


def test_neither_grad_nor_autocast_is_on_around_a_backward_graph():
    with torch.autocast("cpu", dtype=torch.bfloat16), private.as_aot_calls_backward():
        assert not torch.is_grad_enabled()
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32


def test_the_two_calling_conventions():
    assert private.call_compiled(make_boxed_func(lambda x, y: x + y), [1, 2]) == 3
    assert private.call_compiled(lambda x, y: x + y, [1, 2]) == 3


def test_fake_tensors_are_told_from_real_ones():
    mode = private.new_fake_mode()
    assert private.is_fake([1, mode.from_tensor(torch.ones(2))]) and not private.is_fake([1, torch.ones(2)])


@pytest.mark.usefixtures("processes")
def test_backward_passes_are_noted(tmp_path):
    def work():
        noted = []
        private.note_backward_passes(lambda roots: noted.append([root.shape for root in roots]))
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        torch.autograd.grad((x * 2).sum(), x)
        return noted, x.grad.tolist()

    assert in_child(work, tmp_path) == ([[()], [()]], [1.0, 1.0])


def test_a_backward_pass_can_keep_its_buffers():
    from torch._functorch import config

    before = config.donated_buffer
    with private.without_donated_buffers():
        assert config.donated_buffer is False
    assert config.donated_buffer is before
