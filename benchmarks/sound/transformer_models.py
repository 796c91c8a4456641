"""Small transformers of the library of that name, from configurations: no weights are fetched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn


class Logits(nn.Module):
    """A model whose call returns its first output alone, as a script reads it."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, values, strict=True)), return_dict=True)[0]


def _of_text(name: str, **sizes: Any) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def made() -> tuple[nn.Module, tuple[Any, ...]]:
        config = getattr(transformers, f"{name.removesuffix('Model').removesuffix('ForCausalLM')}Config")
        model = getattr(transformers, name)(config(**{"vocab_size": 64, **sizes}))
        return Logits(model, "input_ids"), (torch.randint(5, 60, (2, 10)),)

    return made


def _of_both(name: str, **sizes: Any) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def made() -> tuple[nn.Module, tuple[Any, ...]]:
        config = getattr(transformers, f"{name}Config")(vocab_size=64, **sizes)
        model = getattr(transformers, f"{name}Model")(config)
        return Logits(model, "input_ids", "decoder_input_ids"), tuple(torch.randint(5, 60, (2, n)) for n in (10, 7))

    return made


def _of_images(name: str, **sizes: Any) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def made() -> tuple[nn.Module, tuple[Any, ...]]:
        model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes))
        return Logits(model, "pixel_values"), (torch.randn(2, 3, 32, 32),)

    return made


_BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_LLAMA = {**_BERT, "num_key_value_heads": 2, "max_position_embeddings": 32}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4}
_BART = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}

MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "albert": _of_text("AlbertModel", embedding_size=16, **_BERT),
    "bart": _of_both("Bart", **_BART),
    "bert": _of_text("BertModel", **_BERT),
    "bloom": _of_text("BloomForCausalLM", hidden_size=32, n_layer=2, n_head=4),
    "convnext": _of_images("ConvNext", hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1]),
    "distilbert": _of_text("DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "electra": _of_text("ElectraModel", embedding_size=16, **_BERT),
    "gemma": _of_text("GemmaForCausalLM", head_dim=8, **_LLAMA),
    "gpt2": _of_text("GPT2Model", n_embd=32, n_layer=2, n_head=4, n_positions=32),
    "llama": _of_text("LlamaForCausalLM", **_LLAMA),
    "mistral": _of_text("MistralForCausalLM", sliding_window=4, **_LLAMA),
    "mpt": _of_text("MptForCausalLM", d_model=32, n_layers=2, n_heads=4, max_seq_len=32),
    "neox": _of_text("GPTNeoXForCausalLM", **_BERT),
    "opt": _of_text("OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32, **_LLAMA),
    "phi": _of_text("PhiForCausalLM", **_LLAMA),
    "qwen2": _of_text("Qwen2ForCausalLM", **_LLAMA),
    "roberta": _of_text("RobertaModel", **_BERT),
    "t5": _of_both("T5", **_T5),
    "vit": _of_images("ViT", image_size=32, patch_size=8, **_BERT),
}
