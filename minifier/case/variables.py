"""Environment variables that torch and its compilers read: which of them belong to a Case."""

from __future__ import annotations

from collections.abc import Mapping

# Of torch and what it compiles with. A fresh interpreter that runs a repro has none of them.
OWN = ("TORCH", "PYTORCH", "TRITON", "AOT_")
# Of the libraries below; these are left in place everywhere unless a Case says otherwise.
_BELOW = ("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_")
_SINGLE = frozenset({"CUDA_LAUNCH_BLOCKING"})
# What says where to write or what to print has no part in a failure.
_ENDINGS = ("_DIR", "_HOME", "_PATH", "_FILE", "_FOLDER", "_ROOT", "_LOGS", "_LOG", "_LOG_LEVEL", "_OUT", "_VERBOSE")
_BEGINNINGS = (
    "TORCHDYNAMO_REPRO_",
    "TORCH_LOGS",
    "TORCH_TRACE",
    "TORCHELASTIC_",
    "TORCH_SHOW_",
    "TORCHDYNAMO_EXTENDED_",
)
_NAMES = frozenset({"TORCH_COMPILE_DEBUG", "TORCHDYNAMO_VERBOSE", "TORCHINDUCTOR_VERBOSE", "OMP_DISPLAY_ENV"})
_SECRET = ("TOKEN", "SECRET", "PASSW", "CREDENTIAL", "API_KEY", "AUTH")


def belongs(name: str, value: str) -> bool:
    """Whether a variable is part of a Case's state: not one that holds a path or a secret, or turns logs on."""
    if not (name.startswith((*OWN, *_BELOW)) or name in _SINGLE):
        return False
    if name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS):
        return False
    return "/" not in value and "://" not in value and not any(part in name for part in _SECRET)


def variables(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(name, value) of those that belong to a Case, by name."""
    return tuple(sorted((name, value) for name, value in environment.items() if belongs(name, value)))


def own(found: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Those of torch and its compilers themselves."""
    return tuple((name, value) for name, value in found if name.startswith(OWN))
