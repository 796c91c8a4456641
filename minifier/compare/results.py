"""One run of a callable, and all that can be seen of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from minifier.failure import Stage
from minifier.torch_private import storage_key, transforms_ended

_MOST_SEEDS = 64  # that a compiler is taken to draw for random ops of its own


@dataclass
class Results:
    """What a call gave.

    `outputs` are the leaves of the output, detached; `structure` is what they were nested in; `inputs` are the
    inputs after the call, detached; `gradients` has one for each input, None for those that have none (all, if
    there was no backward pass); `tangents` has one for each output, None where it does not require grad.
    `error` is what the call (stage RUN) or its backward pass (BACKWARD_RUN) raised. `from_inputs` has, for each
    output, the positions of the inputs whose storage it lives in, and `together` the outputs' storages, equal
    numbers for one storage. `drew` says whether the random number generator was used, and `random` has the states of
    the generators after the run.
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
    drew: bool = False
    random: list[torch.Tensor] = field(default_factory=list)


def leaves(value: Any) -> tuple[list[Any], str]:
    """The leaves of nested tuples, lists and dicts, and the nesting in words; a list counts as a tuple."""
    if isinstance(value, (tuple, list)):
        parts = [leaves(item) for item in value]
        return [leaf for found, _ in parts for leaf in found], f"({', '.join(form for _, form in parts)})"
    if isinstance(value, dict):
        named = [(key, leaves(item)) for key, item in value.items()]
        forms = ", ".join(f"{key!r}: {form}" for key, (_, form) in named)
        return [leaf for _, (found, _) in named for leaf in found], f"{{{forms}}}"
    return [value], "*"


def _cuda_is_in_use() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def set_seed(seed: int) -> None:
    """Seeds the generators of this process that are in use. torch.manual_seed would leave a seed behind for
    devices that the script uses only later."""
    torch.default_generator.manual_seed(seed)
    if _cuda_is_in_use():
        torch.cuda.manual_seed_all(seed)


def _random_states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if _cuda_is_in_use() else [])]


def _same_states(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether the generators are in the same states; those that only one of the two knows are passed over."""
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=False))


def _states_after_seeds() -> Iterator[list[torch.Tensor]]:
    """The states of the generators where one seed, two and so on were drawn from one of them, as a compiler does that
    has random numbers of its own. Leaves the generators somewhere else."""
    devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count() if _cuda_is_in_use() else 0))]
    for device in devices:
        for count in range(1, _MOST_SEEDS + 1):
            set_seed(0)
            torch.randint(-(2**63), 2**63 - 1, (count,), device=device)
            yield _random_states()


def drew_the_same(found: Results, eager: Results) -> bool:
    """Whether the generators' states say that the same numbers were drawn. A compiler that draws a seed for each of
    its own random ops may come to eager's state by chance: that says nothing."""
    if not _same_states(found.random, eager.random):
        return False
    return not any(_same_states(states, eager.random) for states in _states_after_seeds())


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """The random number generators are afterwards as they were before."""
    first, *others = _random_states()
    try:
        yield
    finally:
        torch.set_rng_state(first)
        if others:
            torch.cuda.set_rng_state_all(others)


def is_float(value: Any) -> bool:
    """Whether this is a tensor of real or complex floating point numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _tangent(output: Any, position: int, seed: int, given: torch.Tensor | None) -> torch.Tensor | None:
    """Normally distributed numbers that depend on the seed, the position and the shape only."""
    if not is_float(output) or not output.requires_grad:
        return None
    if given is not None and given.shape == output.shape:
        return given.to(output.dtype)
    generator = torch.Generator(output.device).manual_seed(1000 * seed + position)
    drawn = torch.complex64 if output.is_complex() else torch.float32
    return torch.randn(output.shape, generator=generator, dtype=drawn, device=output.device).to(output.dtype)


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


def observe(
    call: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    backward: bool,
    seed: int = 0,
    tangents: Sequence[torch.Tensor | None] | None = None,
    before_backward: Callable[[], None] | None = None,
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Results:
    """Calls once, in the grad mode and autocast of the caller, after seeding the random number generators.

    With `backward` the gradients of all inputs that require grad follow: with the tangents given (converted in
    dtype), or with normally distributed ones. `before_backward` is called in between; `within` makes one context
    for both halves of the run. Whatever is raised, but for KeyboardInterrupt, is in the results. The generators
    are left as the call left them.
    """
    results = Results()
    # By its edge an input is found after the call has changed it in place.
    wanted = [i for i, v in enumerate(inputs) if backward and isinstance(v, torch.Tensor) and v.requires_grad]
    edges = [torch.autograd.graph.get_gradient_edge(inputs[i]) for i in wanted]
    set_seed(seed)
    before = _random_states()
    around = within()
    try:
        with around, transforms_ended():
            outputs, results.structure = leaves(call(*inputs))
        results.outputs = _detached(outputs)
        results.inputs = _detached(inputs)
        if backward:
            results.stage = Stage.BACKWARD_RUN
            given = [None] * len(outputs) if tangents is None else [*tangents, *[None] * len(outputs)]
            results.tangents = [
                _tangent(o, i, seed, g) for i, (o, g) in enumerate(zip(outputs, given[: len(outputs)], strict=True))
            ]
            results.gradients = [None] * len(inputs)
            if before_backward is not None:
                before_backward()
            pulled = [(o, t) for o, t in zip(outputs, results.tangents, strict=True) if t is not None]
            del outputs
            if pulled and edges:
                roots, weights = [o for o, _ in pulled], [t for _, t in pulled]
                del pulled
                with around:
                    found = torch.autograd.grad(roots, edges, weights, allow_unused=True)
                for i, gradient in zip(wanted, found, strict=True):
                    results.gradients[i] = gradient
            results.stage = Stage.RUN
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it raises is what is observed
        results.error = error
    results.random = _random_states()
    results.drew = not _same_states(before, results.random)
    if results.error is None:
        _note_aliases(results)
    return results
