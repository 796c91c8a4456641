"""A compiler that quotes the user's code in its messages: each candidate and the repro have other code."""

import pytest
import torch
from minified_scripts import minified
from minifier_backends.errors import LoweringError
from torch._dynamo.exc import BackendCompilerFailed
from vocabulary import source_of

SCRIPT = source_of(
    """
    import minifier_backends.faulty
    import torch

    class Router(torch.nn.Module):
        def forward(self, x):
            w = torch.softmax(x @ x.T, dim=-1)
            top, _ = torch.topk(
                w,
                2,
                dim=-1,
            )
            return torch.where(w >= top[..., 1:2], w, torch.zeros_like(w)).sum()

    torch.manual_seed(0)
    torch.compile(Router(), backend="faulty_unsupported", options={"op": "topk"})(torch.randn(6, 16))
    """
)


def test_the_message_quotes_node_line_and_graph():
    def fn(x):
        return torch.tanh(x) + 1

    import minifier_backends.faulty  # noqa: F401 - registers the backend

    with pytest.raises(BackendCompilerFailed) as raised:
        torch.compile(fn, backend="faulty_unsupported")(torch.ones(3))
    error = raised.value.inner_exception
    assert isinstance(error, LoweringError) and all(
        part in str(error) for part in ("call_function[target=torch.tanh]", "return torch.tanh(x) + 1", "graph():")
    )


@pytest.mark.timeout(150)
def test_an_unsupported_op_is_found_though_the_message_quotes_its_code(bureau, tmp_path):
    assert "torch.topk(" in minified(bureau, tmp_path, SCRIPT)
