r"""What fails is another process, which the program starts.

reach: exit 1
says: other processes
layer: soak
"""

import subprocess
import sys

subprocess.run([sys.executable, "-c", "sum(1 for _ in range(10**8)) / 0"], check=True)
