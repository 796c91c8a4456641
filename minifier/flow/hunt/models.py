"""Programs from the architectures of transformers, each in a tiny configuration with random weights."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import torch

from minifier.errors import UsageError
from minifier.flow.hunt.programs import Call, Program, ProgramFilter, call_of

_MOST_PARAMETERS = 3_000_000
_TINY = (
    (32, ("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "embedding_size", "image_size")),
    (48, ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim")),
    (2, ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")),
    (
        4,
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"),
    ),
    (4, ("num_experts", "num_local_experts")),
    (2, ("num_key_value_heads",)),
    (8, ("head_dim", "d_kv", "patch_size", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")),
    (16, ("moe_intermediate_size", "q_lora_rank", "kv_lora_rank")),
    (64, ("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions")),
    (99, ("vocab_size",)),
    (0, ("pad_token_id",)),
)


def models(wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the architectures. Most of those that a tiny configuration does not fit are left out when they are made.

    Raises UsageError if transformers cannot be imported.
    """
    try:
        auto = importlib.import_module("transformers.models.auto.modeling_auto")
    except ImportError as error:
        raise UsageError(f"transformers cannot be imported: {error}. `pip install transformers`.") from error
    for name, classes in auto.MODEL_MAPPING_NAMES.items():
        for dtype in wanted.dtypes if wanted.has(name) else ():
            if getattr(torch, dtype).is_floating_point:
                known = classes if isinstance(classes, str) else classes[0]
                yield Program(name, dtype, 0, functools.partial(_call, name, known, getattr(torch, dtype)))


def _call(name: str, class_name: str, dtype: torch.dtype) -> Call:
    transformers: Any = importlib.import_module("transformers")
    usual = transformers.AutoConfig.for_model(name)
    tiny = {field: size for size, fields in _TINY for field in fields if _is_size(getattr(usual, field, ""))}
    config = transformers.AutoConfig.for_model(name, **tiny)
    model_class = getattr(transformers, class_name)
    with torch.device("meta"):
        parameters = sum(each.numel() for each in model_class(config).parameters())
    if parameters > _MOST_PARAMETERS:
        raise ValueError(f"the configuration is not tiny: {parameters:,} parameters")
    model = model_class(config).to(dtype).eval()
    return call_of(name, model, (), {**_inputs(model, dtype), "return_dict": False})


def _is_size(value: object) -> bool:
    return value is None or type(value) is int


def _inputs(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    config, name = model.config, model.main_input_name
    if name == "pixel_values":
        return {name: torch.rand(1, getattr(config, "num_channels", 3), config.image_size, config.image_size).to(dtype)}
    if name != "input_ids":
        raise ValueError(f"its input {name} is not known")
    ids = torch.arange(3, 11).view(1, 8)
    return {name: ids, "decoder_input_ids": ids} if config.is_encoder_decoder else {name: ids}
