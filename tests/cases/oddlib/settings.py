"""The compiler's configuration module, as third parties make theirs."""

import sys

from torch.utils._config_module import Config, install_config_module

unroll = 4
fuse: bool = Config(default=False)
unrolling: int = Config(alias="oddlib.settings.unroll")


class schedule:
    greedy = False


install_config_module(sys.modules[__name__])
