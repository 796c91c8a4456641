import subprocess
import sys
import threading

import torch

print("banner", file=sys.stderr)
threading.Thread(target=threading.Event().wait, daemon=True).start()


def refuse(gm, inputs):
    waiting = [sys.executable, "-c", "import signal; signal.pause()"]
    subprocess.Popen(waiting, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise ValueError("no lowering for tanh")
    return gm.forward
