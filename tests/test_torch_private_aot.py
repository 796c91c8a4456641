"""AOTAutograd's private APIs that are used, used."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from vocabulary import in_child

from minifier.torch_private import (
    NoCompiler,
    as_aot_calls_backward,
    as_dynamo_calls,
    backward_arguments,
    call_compiled,
    compiler_for,
    is_fake,
    leaves,
    new_fake_mode,
    note_backward_passes,
    observe_aot_compilers,
    with_aot_compiler,
)

pytestmark = pytest.mark.timeout(100)


def boxed(gm, example_inputs):
    return make_boxed_func(gm.forward)


def trained(backend):
    """A step of training through the backend; gives the gradient."""
    x = torch.ones(2, 3, requires_grad=True)
    torch.compile(lambda x: torch.tanh(x).sum(), backend=backend)(x).backward()
    return x.grad


def test_compilers_and_compiled_backwards_are_seen(tmp_path):
    def work():
        seen = []

        def on_compile(token, part, gm, inputs, call):
            targets = {str(node.target) for node in gm.graph.nodes}
            real = backward_arguments()
            seen.append((token, part, "aten.tanh_backward.default" in targets, [type(v).__name__ for v in real or ()]))
            return call()

        def on_run(token, args, call):
            seen.append((token, "run", len(args)))
            return call()

        tokens = iter("ab")
        observe_aot_compilers(lambda: next(tokens), on_compile, on_run)
        grad = trained(aot_autograd(fw_compiler=boxed, bw_compiler=boxed))
        return seen, torch.equal(grad, torch.full((2, 3), 1 - torch.tanh(torch.tensor(1.0)).item() ** 2)) or grad

    seen, right = in_child(work, tmp_path)
    assert seen == [
        ("a", "aot-forward", False, []),
        ("a", "aot-backward", True, ["Tensor", "Tensor"]),
        ("a", "run", 2),
    ]
    assert right is True


@pytest.mark.parametrize("backend", ["aot_eager", "inductor", aot_autograd(fw_compiler=boxed, bw_compiler=boxed)])
def test_a_backends_compiler_is_caught_at_work(backend, tmp_path):
    def work():
        compiler = compiler_for(backend, None, None, None)
        graph = torch.fx.Graph()
        graph.output((graph.call_method("clone", (graph.placeholder("x"),)),))
        small = torch.fx.GraphModule(torch.nn.Module(), graph)

        def call():
            with as_dynamo_calls(new_fake_mode()):
                compiler(small, [torch.ones(2, requires_grad=True)])

        def use(part):
            return callable(part), torch.zeros(2).tolist()  # a real tensor: no fake mode is left on

        return with_aot_compiler(call, "aot-backward", use)

    assert in_child(work, tmp_path) == (True, [0.0, 0.0])


def test_a_backend_without_compilers_is_told():
    with pytest.raises(NoCompiler):
        with_aot_compiler(lambda: None, "aot-backward", lambda part: part)


def test_neither_grad_nor_autocast_is_on_around_a_backward_graph():
    with torch.autocast("cpu", dtype=torch.bfloat16), as_aot_calls_backward():
        assert not torch.is_grad_enabled()
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32


def test_the_two_calling_conventions():
    assert call_compiled(make_boxed_func(lambda x, y: x + y), [1, 2]) == 3
    assert call_compiled(lambda x, y: x + y, [1, 2]) == 3


def test_fake_tensors_are_told_from_real_ones():
    mode = new_fake_mode()
    assert is_fake([1, mode.from_tensor(torch.ones(2))]) and not is_fake([1, torch.ones(2)])


def test_backward_passes_are_noted(tmp_path):
    def work():
        noted = []
        note_backward_passes(lambda: noted.append(len(noted)))
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        torch.autograd.grad((x * 2).sum(), x)
        return noted, x.grad.tolist()

    assert in_child(work, tmp_path) == ([0, 1], [1.0, 1.0])


def test_leaves_in_order():
    assert leaves(((1, [2]), {"a": 3})) == [1, 2, 3]
