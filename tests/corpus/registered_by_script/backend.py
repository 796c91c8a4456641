from torch._dynamo.backends.common import aot_autograd


def lower(gm, inputs):
    for node in gm.graph.nodes:
        node.kwargs = {}
    gm.recompile()
    return gm.forward


fast = aot_autograd(fw_compiler=lower)
