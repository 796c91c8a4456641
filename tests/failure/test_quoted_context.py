"""What a message quotes of the program does not count, however much of it there is."""

import pytest

from minifier.failure import Fingerprint, Kind, Stage, same
from minifier.failure.normalise import normalise
from minifier.failure.quoted_context import without_context

FRAMES = '  File "/home/me/model.py", line 3, in forward\n    return torch.topk(x, 1)\n           ^^^^^^^^^^^^^^^^\n'
GRAPH = "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return (%topk,)"
LISTING = 'func.func @main(%arg0: tensor<4xf32>) {\n  %0 = "acme.topk"(%arg0) : (tensor<4xf32>) -> tensor<1xf32>\n}'
READABLE = (
    "class GraphModule(torch.nn.Module):\n    def forward(self, x):\n        # File: /home/me/model.py:3 in forward\n"
    '        topk: "f32[1]" = torch.topk(x, 1);  x = None\n        return (topk,)'
)


@pytest.mark.parametrize("context", [FRAMES, 7 * FRAMES, GRAPH, LISTING, READABLE])
def test_a_quotation_leaves_the_rest(context):
    assert normalise(f"topk is not supported\n{context}\nuse sort") == "topk is not supported\nuse sort"
    assert normalise(f"topk is not supported\n{context}") == "topk is not supported"


def test_a_stack_goes_with_its_heading():
    assert without_context(f"no\nTraceback (most recent call last):\n{FRAMES}yes") == "no\nyes"
    assert without_context(f"no table:\n{FRAMES}yes") == "no table:\nyes"


def identity(message):
    return Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("E",), message=normalise(message))


@pytest.mark.parametrize("stack", [FRAMES.strip(), FRAMES, None, 3 * FRAMES])
@pytest.mark.parametrize("template", ["no topk at {}", "no topk\n{}", "no topk\nStack trace:\n{}\nuse sort"])
def test_a_graph_without_stacks_shows_the_same_failure(template, stack):
    assert same(identity(template.format(FRAMES)), identity(template.format(stack)))
    assert not same(identity(template.format(FRAMES)), identity(template.format(stack).replace("topk", "sort")))


def test_context_is_taken_out_before_a_message_is_cut():
    """A long quotation would push out the line that accuses, or make a message long that is not."""
    long = "\n".join(f'    %{i} = "acme.add"(%{i}) : (tensor<4xf32>) -> tensor<4xf32>' for i in range(3000))
    assert normalise(f"compilation failed\n{long}\nno table for topk\nuse sort") == (
        "compilation failed\nno table for topk\nuse sort"
    )


@pytest.mark.parametrize(
    ("message", "normal"),
    [
        ("bad input tensor([[1., 2.],\n        [3., 4.]], requires_grad=True) here", "bad input <tensor> here"),
        ("bad FakeTensor(..., size=(2, 3)) and Parameter(FakeTensor(..., size=(3,)))", "bad <tensor> and <tensor>"),
        ("types tensor(float) and tensor(int64)", "types tensor(float) and tensor(int64)"),
        ("aten::add.Tensor(Tensor self, Tensor other)", "aten::add.Tensor(Tensor self, Tensor other)"),
        ("bad TensorBox(\n  StorageBox(\n    x\n  )\n) here", "bad <dump> here"),
        ("bad TensorBox(\n  never closed", "bad <dump>"),
        ("at 3:7:\ndef f(x):\n    y = x\n    ^\nno dtype", "no dtype"),
        ("a.mlir:3:7: error: 'acme.add' is illegal\n  %3 = add\n       ^\ndone", "error: 'acme.add' is illegal\ndone"),
        ("Name:'/layer/Conv' of node (Conv_3)", "Name:<name> of node <name>"),
        ("f32[2, 3] and tensor<2x?xf32> and [s0, 2*s1 + 1]", "f32<shape> and tensor<f32> and <shape>"),
    ],
)
def test_what_becomes_of_a_quotation(message, normal):
    assert normalise(message) == normal


@pytest.mark.parametrize(
    "text", ["(" * 100_000, 'File "' * 30_000, "tensor([" * 20_000, "%a = " * 40_000, "* " * 200_000]
)
def test_no_context_takes_long(text):
    import time

    began = time.process_time()
    normalise(f"stack\n{text}\n{FRAMES}")
    assert time.process_time() - began < 5
