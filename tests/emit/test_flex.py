"""Flex attention in a repro: the public function, without what torch made up for its operator."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from vocabulary import in_child

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("processes")]


def source_of_graph(function, *inputs):
    """The function that a repro has for what Dynamo makes of `function`."""
    from minifier.case import BackendReference, BackendSource, Case, Drawn, TensorInput
    from minifier.emit.forms import Template
    from minifier.emit.repro import write_repro
    from minifier.failure import Failure, Fingerprint, Kind, Stage
    from minifier.fx.read import read_graph
    from minifier.fx.tensors import TensorFile

    graphs = []

    def backend(gm, example_inputs):
        graphs.append(read_graph(gm, TensorFile()))
        return gm.forward

    torch.compile(function, backend=backend)(*inputs)
    graph = graphs[0]
    made = tuple(TensorInput(node.name, node.value, Drawn("randn")) for node in graph.placeholders)
    failure = Failure(Fingerprint(Stage.COMPILE, Kind.EXCEPTION), "E", "")
    case = Case(graph, made, BackendReference("eager", BackendSource.REGISTERED, '"eager"'), failure)
    return write_repro(case, Template.COMPILE_FUNCTION).text


def alibi(score, b, h, q, k):
    return score + (k - q) * 0.05


CALLS = {
    "plain": (lambda q: flex_attention(q, q, q), "flex_attention(x, x, x)"),
    "scores": (lambda q: flex_attention(q, q, q, score_mod=alibi), "score_mod=score_mod)"),
    "scale": (lambda q: flex_attention(q, q, q, scale=0.5), "flex_attention(x, x, x, scale=0.5)"),
    "two results": (lambda q: flex_attention(q, q, q, return_lse=True)[1], "return_lse=True"),
}


@pytest.mark.parametrize("how", CALLS)
def test_the_public_function_is_called_and_the_script_runs(how, tmp_path):
    function, written = CALLS[how]

    def work():
        text = source_of_graph(function, torch.randn(2, 4, 32, 16))
        exec(compile(text, "repro.py", "exec"), {"__name__": "__main__", "__file__": "repro.py"})
        return text

    text = in_child(work, tmp_path, timeout=100)
    assert written in text and "higher_order" not in text and "mask" not in text, text


def test_a_block_mask_stays_with_the_operator(tmp_path):
    def work():
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu")
        return source_of_graph(lambda q: flex_attention(q, q, q, block_mask=mask), torch.randn(2, 4, 128, 16))

    assert "higher_order.flex_attention" in in_child(work, tmp_path, timeout=100)
