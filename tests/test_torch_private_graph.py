"""Graphs that a backend sees of Dynamo, of exported programs, and of modules compiled where they are called."""

import pytest
import torch
import torch._inductor

from minifier.torch_side import torch_private as private

_OF_THE_SCRIPT = {"stack_trace"}


def seen_by_a_backend(function, *args):
    seen = []

    def backend(gm, example_inputs):
        context = torch._guards.TracingContext.get()
        (placeholder,) = gm.graph.find_nodes(op="placeholder")
        facts = {
            "module": (set(gm.meta), {name for name in vars(gm) if name.startswith(("_param_name", "_source_to"))}),
            "placeholder": set(placeholder.meta) - _OF_THE_SCRIPT,
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
    mode = private.new_fake_mode()
    graph = torch.fx.Graph()
    node = graph.placeholder("l_x_")
    node.meta["example_value"] = mode.from_tensor(x, static_shapes=True)
    graph.output((graph.call_function(torch.sin, (node,)),))
    module = private.complete_module(torch.fx.GraphModule(torch.nn.Module(), graph))
    private.add_arguments(module, [x])
    with private.as_dynamo_calls(mode, [x]):
        backend(module, [x])


def test_a_backend_sees_the_same_facts_as_when_dynamo_calls_it():
    x = torch.randn(4)
    assert seen_by_a_backend(by_us, x) == seen_by_a_backend(by_dynamo, x)
    assert not torch.compiler.is_compiling()


class _Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, *, y):
        self.count.view(-1).add_(1)
        return x.clone().mul_(self.scale) + y + self.count


def test_an_exported_program_has_its_inputs_in_order_and_tells_what_it_writes_to():
    x, y = torch.ones(2), torch.zeros(2)
    gm, inputs = private.module_of_export(torch.export.export(_Counting(), (x,), {"y": y}))
    assert inputs[0] is x and inputs[1] is y
    assert [node.name for node in gm.graph.find_nodes(op="placeholder")] == ["x", "y"]
    assert private.inputs_written_to(gm) == {"count"}


def test_calls_of_aot_inductor_are_seen_until_it_is_ended():
    original = torch._inductor.aoti_compile_and_package
    seen = []
    end = private.observe_aot_inductor(
        lambda program, configs, call: seen.append((type(program).__name__, configs)) or "path",
        lambda path, run: None,
    )
    program = torch.export.export(_Counting(), (torch.ones(2),), {"y": torch.ones(2)})
    assert torch._inductor.aoti_compile_and_package(program, inductor_configs={"max_autotune": False}) == "path"
    end()
    assert seen == [("ExportedProgram", {"max_autotune": False})]
    assert torch._inductor.aoti_compile_and_package is original


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())

    def forward(self, x):
        return self.inner(x) + 1


@pytest.fixture
def graphs():
    """The graphs that a backend gets while calls of modules are compiled; the backend calls its graph module."""
    seen = []

    def backend(gm, inputs):
        seen.append([node.target for node in gm.graph.nodes if node.op == "call_function"])
        return lambda *args: gm(*args)

    end = private.compile_module_calls(lambda module: torch.compile(module, backend=backend))
    yield seen
    end()
    assert torch.nn.Module._compiled_call_impl is None
    torch._dynamo.reset()


def test_a_module_that_is_called_is_one_graph_with_those_in_it(graphs):
    module, x = Nested(), torch.randn(3)
    assert torch.equal(module(x), x.relu().tanh() + 1) and torch.equal(module(x), x.relu().tanh() + 1)
    assert len(graphs) == 1 and len(graphs[0]) == 3


def test_each_module_has_a_graph_of_its_own(graphs):
    x = torch.randn(3)
    torch.nn.Tanh()(torch.nn.ReLU()(x))
    assert [len(graph) for graph in graphs] == [1, 1]


def test_what_the_module_itself_compiled_stays(graphs):
    module = torch.nn.Tanh()
    module.compile(backend="eager")
    module(torch.randn(3))
    assert not graphs


def test_outputs_are_taken_by_their_positions():
    two = (torch.ones(1), torch.zeros(1))
    assert private.outputs_dynamo_takes([*two, None], two) == two
    (first,) = private.outputs_dynamo_takes(torch.tensor([[1.0], [2.0]]), two[:1])
    assert first.tolist() == [1.0], "of a tensor in the place of a tuple"
    with pytest.raises(IndexError):
        private.outputs_dynamo_takes(two, (*two, None))
