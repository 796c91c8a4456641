"""Environment variables: which belong to a Case, and which a fresh interpreter gets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

# Prefixes of torch and its compilers. A fresh interpreter that runs a repro has none of these variables.
OWN = ("TORCH", "PYTORCH", "TRITON", "AOT_")
# Prefixes of the libraries below torch. These variables stay unless a Case sets them.
_LIBRARIES = ("OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_")
_SINGLE_NAMES = frozenset({"CUDA_LAUNCH_BLOCKING"})
# Variables that only direct output, and so do not cause failures.
_LOG_SUFFIXES = (
    "_DIR",
    "_HOME",
    "_PATH",
    "_FILE",
    "_FOLDER",
    "_ROOT",
    "_LOGS",
    "_LOG",
    "_LOG_LEVEL",
    "_OUT",
    "_VERBOSE",
)
_LOG_PREFIXES = (
    "TORCHDYNAMO_REPRO_",
    "TORCH_LOGS",
    "TORCH_TRACE",
    "TORCHELASTIC_",
    "TORCH_SHOW_",
    "TORCHDYNAMO_EXTENDED_",
)
_LOG_NAMES = frozenset({"TORCH_COMPILE_DEBUG", "TORCHDYNAMO_VERBOSE", "TORCHINDUCTOR_VERBOSE", "OMP_DISPLAY_ENV"})
# Variables that belong to one process, or that every process of this tool sets for itself.
_OF_PROCESS = frozenset({"PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TMPDIR", "XDG_CACHE_HOME"})
# Variables of every shell, and search paths for programs, drivers and compilers.
_ORDINARY = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "PWD", "CC"}
    | {"OLDPWD", "SHLVL", "_", "EDITOR", "PAGER", "LS_COLORS", "LESSOPEN", "LESSCLOSE", "MAIL", "DISPLAY", "PYTHONPATH"}
    | {"CXX", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)  # fmt: skip
_MACHINE_PREFIXES = ("LC_", "LD_", "XDG_", "CUDA_", "NVIDIA_", "ROCR_", "ROCM_", "HIP_", "HSA_")
# Prefixes of variables that change torch, Python or this tool; no fresh interpreter gets them.
_SCRUBBED = ("TORCH", "PYTORCH", "MINIFY", "AOT_", "TRITON", "PYTHON")
_MAX_VALUE_CHARACTERS = 200  # in a script
# Parts of a name that suggest a secret: anywhere, as the end of a word, and as a whole word.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|PGPASS|CREDENTIAL|(?:API|ACCESS|PRIVATE)_?KEY|COOKIE|WEBHOOK|SESS(?:ION|ID)|"
    r"AUTHORIZATION|SIGNATURE|"
    r"(?<!BY)(?<!COM)PASS(?![A-Z])|PWD(?![A-Z])|(?<!MON)(?<!HOT)KEYS?(?![A-Z])|DSN(?![A-Z])|"
    r"(?<![A-Z])(?:O?AUTH2?|PAT|JWT|OTP|PIN|NETRC)(?![A-Z])",
    re.IGNORECASE,
)
MIN_SECRET_CHARACTERS = 6  # a shorter value is a switch or a word


def is_secret(name: str) -> bool:
    """Tell whether the variable's name suggests a secret."""
    return _SECRET.search(name) is not None


def belongs(name: str, value: str) -> bool:
    """Tell whether a variable is part of a Case's state. Paths, secrets and log settings are not."""
    if not (name.startswith((*OWN, *_LIBRARIES)) or name in _SINGLE_NAMES):
        return False
    if name in _LOG_NAMES or name.startswith(_LOG_PREFIXES) or name.endswith(_LOG_SUFFIXES):
        return False
    return "/" not in value and not (is_secret(name) and len(value) >= MIN_SECRET_CHARACTERS)


def variables(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return (name, value) of the variables that belong to a Case, sorted."""
    return tuple(sorted((name, value) for name, value in environment.items() if belongs(name, value)))


def own(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the variables of torch and its compilers only."""
    return tuple((name, value) for name, value in pairs if name.startswith(OWN))


def ordinary(environment: Mapping[str, str], more: Collection[str] | None = ()) -> dict[str, str]:
    """Return the variables of a fresh interpreter: the ordinary ones of a shell, and `more`.

    With `more` None, all except settings of torch, Python and this tool."""
    return {
        name: value
        for name, value in environment.items()
        if name in _ORDINARY
        or (name.startswith(_MACHINE_PREFIXES) and not belongs(name, value))
        or (not name.startswith(_SCRUBBED) and (more is None or name in more))
    }


def others(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a fresh interpreter gets only on request."""
    return tuple(sorted(ordinary(environment, None).keys() - ordinary(environment).keys()))


def may_be_written(name: str, value: str) -> bool:
    """Tell whether a script may show the variable: no path, no secret, no long text."""
    is_private = "/" in value or is_secret(name)
    return not is_private and len(value) <= _MAX_VALUE_CHARACTERS and value.isprintable()


def may_be_set(name: str) -> bool:
    """Tell whether probes get a variable that the script set: all but those that this tool sets or removes."""
    return not (name in _OF_PROCESS or name.startswith((*_SCRUBBED, "_")))


def of_script(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the variables that are in a Case because the script set them, whatever they are for."""
    return tuple((name, value) for name, value in pairs if not belongs(name, value))
