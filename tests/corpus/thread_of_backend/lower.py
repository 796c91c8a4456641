import queue
import threading

orders, answers = queue.Queue(), queue.Queue()


def work():
    while True:
        names = orders.get()
        answers.put("tanh" in " ".join(names))


threading.Thread(target=work, daemon=True).start()


def refuse(gm, inputs, options=None):
    orders.put([node.name for node in gm.graph.nodes])
    if answers.get() and options:
        raise ValueError("no lowering for tanh")
    return gm.forward
