"""A device for tests, in host memory. Its library is next to this file. It does not survive a fork, like CUDA."""

import types
from pathlib import Path

import torch

torch.utils.rename_privateuse1_backend("oddacc")
torch.ops.load_library(str(Path(__file__).with_name("liboddacc.so")))


_module = types.ModuleType("torch.oddacc")
_module.is_available = lambda: True
_module.is_initialized = torch.ops.oddacc.is_used
_module.current_device = lambda: 0
_module.device_count = lambda: 1
_module._is_in_bad_fork = lambda: False
_module.manual_seed_all = lambda seed: torch.ops.oddacc.seed(seed) if torch.ops.oddacc.is_used() else None
_module.get_rng_state = lambda device=0: torch.ops.oddacc.state()
_module.set_rng_state = lambda state, device=0: torch.ops.oddacc.set_state(state)
_module.synchronize = torch.accelerator.synchronize
_module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
torch._register_device_module("oddacc", _module)
torch.utils.generate_methods_for_privateuse1_backend()
