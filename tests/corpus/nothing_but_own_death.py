r"""The program is killed by itself.

reach: exit 1
says: signal 9
layer: soak
"""

import os

os.kill(os.getpid(), 9)
