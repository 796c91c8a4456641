"""What Dynamo adds to a graph for its backend: ours is Dynamo's."""

import torch

from minifier import torch_private as private

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
