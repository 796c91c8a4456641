"""Environment variables that torch and its compilers read: which of them belong to a Case."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

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
# What every shell has, or what a machine needs so that programs, drivers and compilers are found.
_ORDINARY = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "PWD", "CC"}
    | {"OLDPWD", "SHLVL", "_", "EDITOR", "PAGER", "LS_COLORS", "LESSOPEN", "LESSCLOSE", "MAIL", "DISPLAY", "PYTHONPATH"}
    | {"CXX", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)  # fmt: skip
_OF_MACHINES = ("LC_", "LD_", "XDG_", "CUDA_", "NVIDIA_", "ROCR_", "ROCM_", "HIP_", "HSA_")
# What changes torch, Python or this tool; no fresh interpreter gets it.
_SCRUBBED = ("TORCH", "PYTORCH", "MINIFY", "AOT_", "TRITON", "PYTHON")
_LONGEST = 200  # characters of a value that is written into a script
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|(?:^|_)AUTH(?:_|$)|PRIVATE_?KEY", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a variable of this name is one whose value nobody else is to see."""
    return _SECRET.search(name) is not None


def belongs(name: str, value: str) -> bool:
    """Whether a variable is part of a Case's state: not one that holds a path or a secret, or turns logs on."""
    if not (name.startswith((*OWN, *_BELOW)) or name in _SINGLE):
        return False
    if name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS):
        return False
    return "/" not in value and "://" not in value and not is_secret(name)


def variables(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(name, value) of those that belong to a Case, by name."""
    return tuple(sorted((name, value) for name, value in environment.items() if belongs(name, value)))


def own(found: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Those of torch and its compilers themselves."""
    return tuple((name, value) for name, value in found if name.startswith(OWN))


def ordinary(environment: Mapping[str, str], more: Collection[str] | None = ()) -> dict[str, str]:
    """What a fresh interpreter gets of an environment: what any shell of this machine has, and the variables `more`;
    with None all but what changes torch or Python."""
    return {
        name: value
        for name, value in environment.items()
        if name in _ORDINARY
        or (name.startswith(_OF_MACHINES) and not belongs(name, value))
        or (not name.startswith(_SCRUBBED) and (more is None or name in more))
    }


def others(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the variables that `ordinary` leaves out, but for those that no fresh interpreter gets."""
    kept = ordinary(environment)
    return tuple(sorted(name for name in ordinary(environment, None) if name not in kept))


def may_be_written(name: str, value: str) -> bool:
    """Whether a variable may go into a script that others read: no path, no secret, no long text."""
    is_private = "/" in value or is_secret(name)
    return not is_private and len(value) <= _LONGEST and value.isprintable()


def may_be_set(name: str) -> bool:
    """Whether a variable that a script has set may be part of a failure: not one that says where to write or what to
    print, or that this tool sets or leaves out itself."""
    known = name in _ORDINARY or name.startswith((*_SCRUBBED, "XDG_", "_")) or name in _NAMES
    return not (known or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS))
