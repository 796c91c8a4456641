"""Write inputs as short torch expressions, and symbolic sizes as what causes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from minifier.data.case import Call, Case, Drawn, Input, ScalarInput, Stored, TensorInput
from minifier.data.case.calls import inputs_of, of_size
from minifier.data.case.expressions import dynamic_dims, is_unbacked
from minifier.data.case.inputs import Adapted, Recorded, base_of_views, bases, drawn_storages
from minifier.data.case.literals import literal
from minifier.data.case.values import TensorMeta, contiguous_stride
from minifier.data.failure import Stage
from minifier.data.torch_names import MARK_DYNAMIC, ZEROS_WITHOUT_MEMORY
from minifier.errors import NoRepro

TENSOR_FILE = "inputs.safetensors"
_RANDN_DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")


def _options(meta: TensorMeta, default: str, dtype: bool = True) -> str:
    options = [f"dtype=torch.{meta.dtype}"] if dtype and meta.dtype != default else []
    options += [f"device={literal(meta.device)}"] if meta.device != "cpu" else []
    return "".join(f", {option}" for option in options)


def _nested(values: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return values
    step = len(values) // shape[0] if shape[0] else 0
    return [_nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _shape(meta: TensorMeta) -> str:
    return ", ".join(map(str, meta.shape)) if meta.shape else "()"


def _operand(meta: TensorMeta, drawn: Drawn, default: str) -> str:
    """Return the `_drawn` expression, in parentheses if a method call needs them."""
    text = _drawn(meta, drawn, default)
    return f"({text})" if drawn.how in ("bools", "rand") else text


def _inferred(drawn: Drawn, default: str) -> str:
    """Return the dtype that torch.tensor infers from the values; empty for mixed types or no values."""
    kinds = {type(value) for value in drawn.values}
    return {bool: "bool", int: "int64", float: default}[kinds.pop()] if len(kinds) == 1 else ""


def _drawn(meta: TensorMeta, drawn: Drawn, default: str) -> str:
    if not meta.has_default_stride:
        if len(meta.shape) == 2 and meta.stride == (1, meta.shape[0]):
            transposed = replace(meta, shape=meta.shape[::-1], stride=(meta.shape[0], 1))
            return f"{_operand(transposed, drawn, default)}.t()"
        flat = replace(meta, shape=(meta.span,), stride=(1,))
        return f"{_operand(flat, drawn, default)}.as_strided({literal(meta.shape)}, {literal(meta.stride)})"
    shape = _shape(meta)
    if drawn.how in ("zeros", "ones"):
        return f"torch.{drawn.how}({shape}{_options(meta, default)})"
    if drawn.how == "no memory":
        return f"{ZEROS_WITHOUT_MEMORY}({literal(meta.shape)}{_options(meta, default)})"
    if drawn.how == "full":
        if type(drawn.low) is int and meta.elements == 1:
            return _drawn(meta, Drawn("list", values=(drawn.low,)), default)
        inferred = "int64" if type(drawn.low) is int else default
        return f"torch.full({literal(meta.shape)}, {drawn.low!r}{_options(meta, inferred)})"
    if drawn.how == "list":
        values, inferred = _nested(list(drawn.values), meta.shape), _inferred(drawn, default)
        return f"torch.tensor({literal(values)}{_options(meta, inferred)})"
    if drawn.how == "bools":
        return f"torch.rand({shape}{_options(meta, default, dtype=False)}) > 0.5"
    if drawn.how == "randint":
        return f"torch.randint({drawn.low}, {drawn.high}, {literal(meta.shape)}{_options(meta, 'int64')})"
    if drawn.how == "rand":
        low = float(drawn.low or 0.0)
        text = f"torch.rand({shape}{_options(meta, default, dtype=False)}) * {drawn.spread!r}"
        text += f" {'-' if low < 0 else '+'} {abs(low)!r}" if low else ""
        return text if meta.dtype == default else f"({text}).to(torch.{meta.dtype})"
    if meta.dtype in _RANDN_DTYPES:
        return f"torch.randn({shape}{_options(meta, default)})"
    return f"torch.randn({shape}{_options(meta, default, dtype=False)}).to(torch.{meta.dtype})"


def _stored(meta: TensorMeta, stored: Stored, default: str) -> str:
    from minifier.torch_side.fx.tensors import is_stored_as_bytes  # imports torch

    text = f"tensors[{literal(stored.key)}]"
    if stored.shared:
        return (
            f"{text}.view(torch.{meta.dtype}).as_strided({literal(meta.shape)}, {literal(meta.stride)}, {meta.offset})"
        )
    as_bytes = is_stored_as_bytes(meta.dtype)
    text += f".view(torch.{meta.dtype})" if as_bytes else ""
    if stored.offset:
        return f"{text}.as_strided({literal(meta.shape)}, {literal(meta.stride)}, {stored.offset})"
    if stored.contiguous and not meta.has_default_stride:
        values = f"{text}.reshape({literal(meta.shape)})" if as_bytes else text
        empty = f"torch.empty_strided({literal(meta.shape)}, {literal(meta.stride)}{_options(meta, default)})"
        return f"{empty}.copy_({values})"
    if not meta.has_default_stride:
        return f"{text}.as_strided({literal(meta.shape)}, {literal(meta.stride)})"
    return f"{text}.reshape({literal(meta.shape)})" if as_bytes else text


def _window(whole: str, base: TensorMeta, meta: TensorMeta) -> str:
    """Return the expression of a view of the contiguous tensor `whole`."""
    rows, step = meta.shape[:1], base.stride[:1]
    aligned = meta.stride == base.stride and meta.shape[1:] == base.shape[1:] and bool(rows) and step[0] > 0
    if aligned and meta.offset % step[0] == 0 and meta.elements:
        first = meta.offset // step[0]
        last = first + rows[0]
        return f"{whole}[{first or ''}:{'' if last == base.shape[0] else last}]"
    offset = f", {meta.offset}" if meta.offset else ""
    return f"{whole}.as_strided({literal(meta.shape)}, {literal(meta.stride)}{offset})"


def _windowed(item: TensorInput, default: str) -> str:
    """Return the expression of an input whose storage is larger than itself."""
    source, whole, meta = item.source, item.whole, item.meta
    if isinstance(source, Drawn):
        text = _operand(whole, source, default)
    else:
        assert isinstance(source, Stored), "its values are known"
        text, meta = _stored(whole, Stored(source.key), default), replace(meta, offset=source.offset)
    if meta.requires_grad and not item.leaf:
        return _window(f"{text}.requires_grad_().clone()", whole, meta)
    window = _window(text, whole, meta)
    if item.parameter:
        return f"torch.nn.Parameter({window}{'' if meta.requires_grad else ', requires_grad=False'})"
    return f"{window}.requires_grad_()" if meta.requires_grad else window


def _view_of_base(base: str, whole: TensorMeta, meta: TensorMeta) -> str:
    """Return the expression of a view of a tensor that is no input itself: one of its rows, if it has rows."""
    if meta.shape == whole.shape[1:]:
        return f"{base}[{meta.offset // max(meta.elements, 1)}]"
    return _window(base, whole, meta)


def tensor_source(item: TensorInput, default: str) -> str:
    """Return the expression of the tensor under this default dtype. Raises NoRepro if its values are unknown."""
    source = item.source
    if isinstance(source, (Recorded, Adapted)):
        raise NoRepro(f"the value of {item.name} was not recorded")
    if item.storage:
        return _windowed(item, default)
    text = _drawn(item.meta, source, default) if isinstance(source, Drawn) else _stored(item.meta, source, default)
    if item.meta.requires_grad and not item.leaf and item.meta.span != item.meta.elements:
        storage, dot, strided = text.rpartition(".as_strided(")
        return f"{storage}.requires_grad_().clone(){dot}{strided}" if dot else f"{text}.requires_grad_().clone()"
    if item.parameter:
        return f"torch.nn.Parameter({text}{'' if item.meta.requires_grad else ', requires_grad=False'})"
    if not item.meta.requires_grad:
        return text
    is_call = text.startswith("torch.") and text.endswith(")") and item.meta.has_default_stride
    text = f"{text[:-1]}, requires_grad=True)" if is_call else f"({text}).requires_grad_()"
    return text if item.leaf else f"{text}.clone()"


def tangent_source(meta: TensorMeta, default: str) -> str:
    """Return the expression of a random contiguous gradient for this output."""
    contiguous = replace(meta, stride=contiguous_stride(meta.shape), requires_grad=False)
    return _drawn(contiguous, Drawn("randn"), default)


def _loading(case: Case) -> list[str]:
    """Return the statements that load the stored tensors, each on the device of its inputs."""
    devices = {
        item.source.key: item.meta.device
        for item in case.inputs
        if isinstance(item, TensorInput) and isinstance(item.source, Stored)
    }
    loaded = f'load_file(pathlib.Path(__file__).with_name("{TENSOR_FILE}"))'
    if len(set(devices.values())) == 1 and (device := next(iter(devices.values()))) != "cpu":
        return [f"tensors = {{k: v.to({literal(device)}) for k, v in {loaded}.items()}}"]
    # Copied, since the file aligns tensors to 8 bytes only: compiled code may assume more and crash.
    statements = [f"tensors = {{k: v.clone() for k, v in {loaded}.items()}}"]
    for key, device in devices.items():
        if device != "cpu":
            name = f"tensors[{literal(key)}]"
            statements.append(f"{name} = {name}.to({literal(device)})")
    return statements


def input_lines(case: Case, names: dict[str, str], *, seeded: bool = False) -> tuple[list[str], list[str], bool]:
    """Return (import lines, statements that create the inputs, whether they read stored tensors).

    `names` has a variable for each input, and for each generated storage that inputs are views of. `seeded` sets the
    seed even if no input is random: the script draws other random numbers.
    """
    statements, stored, random = [], False, False
    views = bases(case.inputs)
    whole = {storage: base_of_views(items) for storage, items in drawn_storages(case.inputs).items()}
    written: set[str] = set()
    for item in sorted(case.inputs, key=lambda item: item.name in views):
        name = names[item.name]
        if isinstance(item, ScalarInput):
            statements.append(f"{name} = {literal(item.value)}")
            continue
        if item.name in views:
            base = views[item.name]
            statement = f"{name} = {_window(names[base.name], base.meta, item.meta)}"
            without_grad = base.meta.requires_grad and item.leaf
            statements.append(f"with torch.no_grad():\n    {statement}" if without_grad else statement)
            continue
        stored = stored or isinstance(item.source, Stored)
        random = random or (isinstance(item.source, Drawn) and item.source.is_random)
        if isinstance(item.source, Drawn) and (storage := item.source.storage) is not None:
            if storage not in written:
                written.add(storage)
                text = _drawn(whole[storage], item.source, case.state.default_dtype)
                statements.append(f"{names[storage]} = {text}")
            statements.append(f"{name} = {_view_of_base(names[storage], whole[storage], item.meta)}")
            continue
        statement = f"{name} = {tensor_source(item, case.state.default_dtype)}"
        statements.append(f"with torch.inference_mode():\n    {statement}" if item.inference else statement)
    imports = []
    if stored:
        imports = ["import pathlib", "from safetensors.torch import load_file"]
        statements[:0] = _loading(case)
    if (random or seeded) and case.failure.fingerprint.stage not in (Stage.COMPILE, Stage.BACKWARD_COMPILE):
        statements.insert(0, "torch.manual_seed(0)")
    return imports, statements, stored


def marks(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return `torch._dynamo.mark_dynamic(x, 0)` for each input with a symbolic size."""
    statements = []
    for item in case.inputs:
        if dims := dynamic_dims(case, item):
            statements.append(f"{MARK_DYNAMIC}({names[item.name]}, {dims[0] if len(dims) == 1 else dims})")
    return tuple(statements)


def call_that_makes_symbols(case: Case, names: Mapping[str, str]) -> str:
    """Return the call ahead of all others of the Case's function that makes its numbers symbols.

    Every symbolic size and number is increased by 1, and every float halved. Other inputs stay the same.
    """
    first = next((call for call in case.before if call.graph is None), Call())
    inputs = inputs_of(case, replace(first, ones=None))
    what = "size" if any(dynamic_dims(case, item) for item in case.inputs) else "number"
    return _call(case, [_other(case, item) for item in inputs], names, f"another {what}: from now on it is a symbol")


def call_with_other_inputs(case: Case, call: Call, names: Mapping[str, str]) -> str:
    """Return an earlier call of the Case's function with other sizes or values."""
    what = "this size" if call.has_other_sizes else "this number" if call.sizes else "these values"
    return _call(case, inputs_of(case, call), names, f"compiles it with {what}")


def _other(case: Case, item: Input) -> Input:
    if isinstance(item, TensorInput):
        dims = dynamic_dims(case, item)
        return of_size(item, tuple(size + (dim in dims) for dim, size in enumerate(item.meta.shape)))
    if type(item.value) is int and item.symbol is not None and not is_unbacked(item.symbol):
        return replace(item, value=item.value + 1)
    return replace(item, value=item.value / 2 or 1.0) if type(item.value) is float else item


def _call(case: Case, inputs: Sequence[Input], names: Mapping[str, str], comment: str) -> str:
    def argument(item: Input, own: Input) -> str:
        if item == own:
            return names[own.name]
        return tensor_source(item, case.state.default_dtype) if isinstance(item, TensorInput) else str(item.value)

    return f"compiled({', '.join(map(argument, inputs, case.inputs))})  # {comment}"
