"""Flex attention in a repro: the public function, without what torch made up for its operator."""

import pytest
import torch
from real_graphs import compiled_graphs
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from vocabulary import in_child

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("processes")]


def test_the_public_function_is_called_and_the_script_runs(tmp_path):
    def work():
        from test_repro_source import case_of

        from minifier.repro.emit.forms import Template
        from minifier.repro.emit.repro import write_repro

        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu")
        texts = []
        for function in (
            lambda q: flex_attention(q, q, q),
            lambda q: flex_attention(q, q, q, score_mod=lambda score, b, h, q, k: score + (k - q) * 0.05),
            lambda q: flex_attention(q, q, q, scale=0.5, return_lse=True)[1],
            lambda q: flex_attention(q, q, q, block_mask=mask),
        ):
            (captured,) = compiled_graphs(function, torch.randn(2, 4, 128, 16))
            repro = write_repro(case_of(captured, tmp_path), Template.COMPILE_FUNCTION)
            texts.append(repro.text)
            if function.__closure__ is None:
                torch.compiler.reset()
                exec(
                    compile(repro.text, "repro.py", "exec"),
                    {"__name__": "__main__", "__file__": str(repro.write(tmp_path))},
                )
        return texts

    *public, masked = in_child(work, tmp_path, timeout=100)
    assert all("flex_attention(" in text and "higher_order" not in text and "mask" not in text for text in public)
    assert "score_mod=" in public[1] and "scale=0.5" in public[2] and "return_lse=True" in public[2]
    assert "higher_order.flex_attention" in masked, "a block mask stays with the operator"
