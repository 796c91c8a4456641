"""Run a callable once and record its observable results; earlier results that it has written over."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch

from minifier.data.failure import Aspect, Difference, Stage
from minifier.torch_side.torch_private.autograd import transforms_ended
from minifier.torch_side.torch_private.graphs import storage_key
from minifier.torch_side.torch_private.modes import device_kinds

RandomStates = Mapping[str, torch.Tensor]  # by device

_MAX_COMPILER_SEEDS = 64  # a compiler draws at most so many seeds for random ops of its own


@dataclass
class Results:
    """All observed results of a call.

    `outputs` are the output's leaves, detached; `structure` is their nesting. `inputs` are the inputs after the call,
    detached. After a backward pass, `gradients` has an entry for each input (None without a gradient), and `tangents`
    an entry for each output (None if the output does not require grad); else both are empty. `error` was raised by the
    call (stage RUN) or by its backward pass (BACKWARD_RUN).

    `from_inputs` has for each output the positions of the inputs with the same storage. `together` has a number for
    each output; equal numbers mean the same storage. `autograd` has (requires_grad, is_leaf) for each output that is a
    tensor, else None. `drew`: the run used a random number generator. `random`: the generators' states afterwards.
    """

    outputs: list[Any] = field(default_factory=list)
    structure: str = ""
    inputs: list[Any] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    tangents: list[torch.Tensor | None] = field(default_factory=list)
    error: BaseException | None = None
    stage: Stage = Stage.RUN
    from_inputs: tuple[frozenset[int], ...] = ()
    together: tuple[int, ...] = ()
    autograd: tuple[tuple[bool, bool] | None, ...] = ()
    drew: bool = False
    random: RandomStates = field(default_factory=dict)


def leaves(value: Any) -> tuple[list[Any], str]:
    """Return the leaves of nested tuples, lists and dicts, and their nesting in words. A list counts as a tuple."""
    if isinstance(value, (tuple, list)):
        items = [leaves(item) for item in value]
        return [leaf for of_item, _ in items for leaf in of_item], f"({', '.join(form for _, form in items)})"
    if isinstance(value, dict):
        named = [(key, leaves(item)) for key, item in value.items()]
        forms = ", ".join(f"{key!r}: {form}" for key, (_, form) in named)
        return [leaf for _, (of_item, _) in named for leaf in of_item], f"{{{forms}}}"
    return [value], "*"


def _modules_in_use() -> Iterator[tuple[str, Any]]:
    """Yield the name and torch's module of each kind of device that this process has used, except the CPU."""
    for kind in device_kinds():
        module = getattr(torch, kind, None)
        if module is not None and getattr(module, "is_initialized", bool)():
            yield kind, module


def _devices_in_use() -> Iterator[tuple[str, Any, int]]:
    """Yield the name, module and index of each device whose generator has a state."""
    for kind, module in _modules_in_use():
        if hasattr(module, "get_rng_state") and hasattr(module, "set_rng_state"):
            for index in range(module.device_count()):
                yield f"{kind}:{index}", module, index


def wait_for_devices(values: Sequence[Any]) -> None:
    """Wait for the devices of these tensors, or else for the current device: an error of work that was started earlier
    is raised here, and not by a later op."""
    devices = {value.device for value in values if isinstance(value, torch.Tensor)}
    for kind, module in _modules_in_use():
        if hasattr(module, "synchronize"):
            for device in [device for device in devices if device.type == kind] or [torch.device(kind)]:
                _synchronize(module)(device)


def _synchronize(module: Any) -> Callable[..., Any]:
    """Return what a repro waits with, so that an error is raised in the same function; the module's own otherwise."""
    accelerator = torch.accelerator.current_accelerator()
    is_its = accelerator is not None and getattr(torch, accelerator.type, None) is module
    return torch.accelerator.synchronize if is_its else module.synchronize


def call_and_wait(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call the function, and wait for the devices of arguments and results: a kernel's error belongs to the call."""
    result = function(*args)
    wait_for_devices([*args, *leaves(result)[0]])
    return result


def set_seed(seed: int) -> None:
    """Seed the generators in use. torch.manual_seed would also seed devices that the script uses only later."""
    torch.default_generator.manual_seed(seed)
    for _, module in _modules_in_use():
        if hasattr(module, "manual_seed_all"):
            module.manual_seed_all(seed)


def random_states() -> RandomStates:
    """Return the states of the generators in use."""
    return {"cpu": torch.get_rng_state()} | {name: module.get_rng_state(i) for name, module, i in _devices_in_use()}


def random_digest() -> bytes:
    """Return a digest of the states of the generators in use."""
    states = (state.cpu().numpy().tobytes() for _, state in sorted(random_states().items()))
    return hashlib.sha256(b"".join(states)).digest()


def set_random_states(states: RandomStates) -> None:
    """Set the generators to these states."""
    torch.set_rng_state(states["cpu"])
    for name, module, index in _devices_in_use():
        if name in states:
            module.set_rng_state(states[name], index)


def _same_states(a: RandomStates, b: RandomStates) -> bool:
    """Whether the generators' states are equal; generators of only one of the runs are ignored."""
    return all(torch.equal(a[name], b[name]) for name in a if name in b)


def _states_after_seeds(start: RandomStates | None) -> Iterator[RandomStates]:
    """Yield the generators' states after a draw of 1, 2, ... seeds from a generator, like a compiler with random ops of
    its own. Changes the generators' states."""
    for device in ("cpu", *(name for name, _, _ in _devices_in_use())):
        for count in range(1, _MAX_COMPILER_SEEDS + 1):
            _begin(0, start)
            torch.randint(-(2**63), 2**63 - 1, (count,), device=device)
            yield random_states()


def _begin(seed: int, start: RandomStates | None) -> None:
    """Set the generators to `start`, if given and the seed is 0; else seed them."""
    if start is None or seed:
        set_seed(seed)
    else:
        set_random_states(start)


def drew_the_same(compiled: Results, eager: Results, start: RandomStates | None = None) -> bool:
    """Whether the generators' states prove that both runs drew the same numbers. Both began at `start` or seed 0.

    A compiler that draws a seed for each of its own random ops may reach eager's state by chance; False then.
    """
    if not _same_states(compiled.random, eager.random):
        return False
    return not any(_same_states(states, eager.random) for states in _states_after_seeds(start))


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore the random number generators afterwards."""
    states = random_states()
    try:
        yield
    finally:
        set_random_states(states)


def is_float(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a value is a tensor of real or complex floating point numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself if it is strided, else its elements in a strided tensor."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def are_identical(c: torch.Tensor, e: torch.Tensor) -> bool:
    """Whether all elements are equal; NaN equals NaN."""
    c, e = dense(c), dense(e)
    same = (c == e) | (c.isnan() & e.isnan()) if is_float(e) else c == e
    return bool(same.all())


def _tangent(output: Any, position: int, seed: int, tangent: torch.Tensor | None) -> torch.Tensor | None:
    """Return the given tangent if its shape fits, else normally distributed numbers; None if there is no gradient.

    The numbers depend only on the seed and the position, and on the output's shape, dtype and device.
    """
    if not is_float(output) or not output.requires_grad:
        return None
    if tangent is not None and tangent.shape == output.shape:
        return tangent.to(output.dtype)
    generator = torch.Generator(output.device).manual_seed(1000 * seed + position)
    dtype = torch.complex64 if output.is_complex() else torch.float32
    return torch.randn(output.shape, generator=generator, dtype=dtype, device=output.device).to(output.dtype)


def _detached(values: Sequence[Any]) -> list[Any]:
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in values]


def _note_aliases(results: Results) -> None:
    of_inputs: dict[object, set[int]] = {}
    for i, value in enumerate(results.inputs):
        if isinstance(value, torch.Tensor) and value.numel():
            of_inputs.setdefault(storage_key(value), set()).add(i)
    numbers: dict[object, int] = {}
    together, from_inputs = [], []
    for i, value in enumerate(results.outputs):
        key: object = storage_key(value) if isinstance(value, torch.Tensor) and value.numel() else None
        key = ("none", i) if key is None else key
        together.append(numbers.setdefault(key, len(numbers)))
        from_inputs.append(frozenset(of_inputs.get(key, ())))
    results.together, results.from_inputs = tuple(together), tuple(from_inputs)


def observe_outputs(results: Results, value: Any, inputs: Sequence[Any]) -> list[Any]:
    """Put the outputs of a finished call, and its inputs as they are now, into the results. Return the leaves.

    Without grad mode, `autograd` is None for all outputs: a view's flags then depend on how the view was made.
    """
    outputs, results.structure = leaves(value)
    tracked = torch.is_grad_enabled()
    results.autograd = tuple(
        (output.requires_grad, output.is_leaf) if tracked and isinstance(output, torch.Tensor) else None
        for output in outputs
    )
    results.outputs = _detached(outputs)
    results.inputs = _detached(inputs)
    _note_aliases(results)
    return outputs


def finish(results: Results, before: RandomStates) -> None:
    """Put the present states of the generators into the results; `before` are the states ahead of the call."""
    results.random = random_states()
    results.drew = not _same_states(before, results.random)


@dataclass(frozen=True)
class BackwardPass:
    """How to compute gradients after a call.

    `tangents` are converted to the outputs' dtypes; missing tangents are normally distributed. `before` is called ahead
    of the backward pass.
    """

    tangents: Sequence[torch.Tensor | None] | None = None
    before: Callable[[], object] = lambda: None
    retain_graph: bool = False


def observe(
    call: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    backward: BackwardPass | None = None,
    seed: int = 0,
    start: RandomStates | None = None,
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Results:
    """Seed the random number generators, then call once in the caller's grad mode and autocast.

    With seed 0 the generators begin in the states `start` instead, if these are given.

    With `backward`, compute the gradients of all inputs that require grad. `within` makes the context for both call and
    backward pass. Exceptions, except KeyboardInterrupt, go into the results. The generators are not restored.
    """
    results = Results()
    # An edge still identifies the input after the call has changed it in place.
    wanted = [i for i, v in enumerate(inputs) if backward and isinstance(v, torch.Tensor) and v.requires_grad]
    edges = [torch.autograd.graph.get_gradient_edge(inputs[i]) for i in wanted]
    _begin(seed, start)
    before = random_states()
    around = within()
    try:
        with around, transforms_ended():
            value = call(*inputs)
        wait_for_devices([*inputs, *leaves(value)[0]])
        outputs = observe_outputs(results, value, inputs)
        del value
        if backward is not None:
            results.stage = Stage.BACKWARD_RUN
            padded = [*(backward.tangents or ()), *[None] * len(outputs)]
            results.tangents = [_tangent(o, i, seed, t) for i, (o, t) in enumerate(zip(outputs, padded, strict=False))]
            results.gradients = [None] * len(inputs)
            backward.before()
            roots = [o for o, t in zip(outputs, results.tangents, strict=True) if t is not None]
            del outputs
            if roots and edges:
                weights = [t for t in results.tangents if t is not None]
                with around:
                    gradients = torch.autograd.grad(
                        roots, edges, weights, retain_graph=backward.retain_graph, allow_unused=True
                    )
                wait_for_devices([*inputs, *roots])
                for i, gradient in zip(wanted, gradients, strict=True):
                    results.gradients[i] = gradient
            results.stage = Stage.RUN
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        results.error = error
    finish(results, before)
    return results


def overwritten(earlier: Sequence[Any], inputs: Sequence[Any], result: Any) -> tuple[Difference, ...]:
    """Return a difference for each output that begins where an output of an earlier call does, and is no input's.

    `earlier` are the earlier calls' outputs, which still exist; `inputs` and `result` are the last call's.
    """
    taken = {value.data_ptr() for value in _in_memory(earlier)}
    given = [_memory(value) for value in _in_memory(inputs)]
    return tuple(
        Difference(Aspect.OVERWRITTEN, f"output {i}", f"output {i} is written over the result of an earlier call")
        for i, output in enumerate(leaves(result)[0])
        for value in _in_memory([output])
        if value.data_ptr() in taken and not any(value.data_ptr() in memory for memory in given)
    )


def not_in_eager(
    differences: Sequence[Difference], build: Callable[[], Callable[..., Any]], make_inputs: Callable[[], Sequence[Any]]
) -> tuple[Difference, ...]:
    """Leave out what `overwritten` finds in eager as well: a result that is a tensor of the graph's own, say.

    `build` makes the graph's module, which is called twice, with new inputs each time.
    """
    if not differences:
        return ()
    module = build()
    first, inputs = module(*make_inputs()), make_inputs()
    in_eager = {each.where for each in overwritten(leaves(first)[0], inputs, module(*inputs))}
    return tuple(each for each in differences if each.where not in in_eager)


def _in_memory(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors that have elements in a memory of their own or a shared one; a wrapper of tensors has not."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel() and not value.is_meta:
            with contextlib.suppress(NotImplementedError, RuntimeError):
                value.data_ptr()
                yield value


def _memory(value: torch.Tensor) -> range:
    storage = value.untyped_storage()
    return range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
