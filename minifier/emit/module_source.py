"""A module that a graph calls, as the constructor call that makes one like it."""

from __future__ import annotations

import inspect

from minifier.case.graph import Module
from minifier.case.literals import literal
from minifier.errors import NoRepro
from minifier.fx.names import resolve


def constructor(name: str, module: Module) -> str:
    """`torch.nn.Linear(4, 8, bias=False)`: arguments are read off attributes of the same name.

    Raises NoRepro for a class whose constructor cannot be followed in this way.
    """
    kind: type = resolve(module.type)
    arguments = []
    for parameter in inspect.signature(kind).parameters.values():
        key = parameter.name
        if key in ("bias", "affine", "elementwise_affine"):
            value = "bias" in module.parameters or ("weight" in module.parameters and key != "bias")
        elif key in module.plain:
            value = module.plain[key]
        elif parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        else:
            raise NoRepro(f"the graph calls the module {name}, a {module.type}, whose constructor cannot be written")
        if parameter.default is parameter.empty:
            arguments.append(literal(value))
        elif value != parameter.default:
            arguments.append(f"{key}={literal(value)}")
    path = module.type.replace(":", ".")
    if getattr(resolve("torch.nn"), str(kind.__name__), None) is kind:
        path = f"torch.nn.{kind.__name__}"
    return f"{path}({', '.join(arguments)}){'' if module.training else '.eval()'}"
