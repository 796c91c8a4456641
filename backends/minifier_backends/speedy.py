"""The speedy backend: TorchScript and its optimisations for inference.

The idea is torch's tutorial backend, `optimize_for_inference(torch.jit.script(gm))`, with what that leaves
to luck made explicit: what TorchScript cannot do is an error, and never a silently different result.
TorchScript is no longer developed, hence the tag "experimental".
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend
from torch._ops import HigherOrderOperator

from minifier_backends.graphs import fresh_copy, is_symbolic


class SpeedyError(RuntimeError):
    """The graph can be neither scripted nor traced."""


class TrainingNotSupported(SpeedyError):
    """The graph would need a backward pass."""


@register_backend(tags=("experimental",))
def speedy(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Scripts the graph, or traces it where scripting cannot, and optimises the result for inference.

    Weights stay inputs of the graph, so later updates of them are seen. Raises TrainingNotSupported under
    grad mode when anything requires grad, and SpeedyError when the graph can be neither scripted nor traced.
    """
    _refuse_training(gm, example_inputs)
    # torch.jit.script chokes on the lazily compiled GraphModule that Dynamo hands over.
    plain = fresh_copy(gm).eval()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="The TorchScript type system doesn't support")
        try:
            module = torch.jit.script(plain)
        except Exception as not_scripted:  # noqa: BLE001 - TorchScript raises whatever it meets
            module = _trace(plain, example_inputs, not_scripted)
        optimized = torch.jit.optimize_for_inference(module.eval())

    # A function, because Dynamo asks a module for `training`, which a frozen one no longer has.
    def run(*args: Any) -> Any:
        return optimized(*args)

    return run


def _refuse_training(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    tensors = [value for value in (*example_inputs, *gm.parameters()) if isinstance(value, torch.Tensor)]
    needy = sum(tensor.requires_grad for tensor in tensors)
    if torch.is_grad_enabled() and needy:
        raise TrainingNotSupported(
            f"speedy compiles for inference only, but grad mode is on and {needy} of {len(tensors)} tensors "
            'require grad: call the model under torch.no_grad(), or use backend="reference_aot"'
        )


def _trace(plain: fx.GraphModule, example_inputs: Sequence[Any], not_scripted: Exception) -> Any:
    """The graph traced with copies of its inputs, and checked with other values.

    A trace follows one branch of a `torch.cond`, and keeps as a constant every symbolic size and whatever
    leaves torch on its way (through NumPy, say): it would be right for these inputs only.
    """
    reasons = f"cannot be scripted: {_reason(not_scripted)}"
    obstacle = _obstacle_to_tracing(plain, example_inputs)
    if obstacle:
        raise SpeedyError(f"the graph {reasons}\nand cannot be traced: {obstacle}") from not_scripted
    try:
        # Tracing and checking run the graph: on copies, and with the random state put back.
        with torch.random.fork_rng():
            traced = torch.jit.trace(plain, _copies(example_inputs), check_trace=False)  # type: ignore[no-untyped-call]
            _check(plain, traced, example_inputs)
    except Exception as not_traced:
        raise SpeedyError(f"the graph {reasons}\nand cannot be traced: {_reason(not_traced)}") from not_traced
    return traced


def _obstacle_to_tracing(plain: fx.GraphModule, example_inputs: Sequence[Any]) -> str:
    """What would make a trace wrong without anything to show for it; "" if there is nothing of the kind."""
    if any(map(is_symbolic, example_inputs)):
        return "it has symbolic sizes (dynamic=False avoids them)"
    higher = [node.target for node in plain.graph.nodes if isinstance(node.target, HigherOrderOperator)]
    return f"it has the higher-order op {higher[0].__name__}" if higher else ""


def _check(plain: fx.GraphModule, traced: Any, example_inputs: Sequence[Any]) -> None:
    """Raises where the traced graph does not compute what the graph computes of halved inputs."""
    results = []
    for module in (plain, traced):
        torch.manual_seed(0)
        halved = (value / 2 if value.is_floating_point() else value for value in _copies(example_inputs))
        results.append(module(*halved))
    try:
        torch.testing.assert_close(results[1], results[0], equal_nan=True)
    except AssertionError as error:
        raise SpeedyError("the trace does not follow its inputs") from error


def _copies(example_inputs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.detach().clone() for value in example_inputs)


def _reason(error: Exception) -> str:
    """The class of an error and the first line of its message that says anything."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
