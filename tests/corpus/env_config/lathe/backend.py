"""The backend `lathe`."""

from torch._dynamo import register_backend

from lathe import passes
from lathe.settings import SETTINGS


@register_backend
def lathe(graph_module, example_inputs):
    for name in SETTINGS.passes if SETTINGS.effort > 2 else []:
        getattr(passes, name)(graph_module.graph)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module.forward
