import sys

from torch.utils._config_module import install_config_module

depth = 1
install_config_module(sys.modules[__name__])
