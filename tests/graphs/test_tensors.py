"""Tensors to a file and back: values, strides, offsets, sharing, types."""

import pytest
import torch

from minifier.data.case import Drawn, TensorInput, TensorMeta
from minifier.data.case.inputs import Recorded
from minifier.errors import CannotSave
from minifier.torch_side.fx.arguments import tensor_meta
from minifier.torch_side.fx.inputs import NotRecorded, RecordedValues, Recorder, make_inputs
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile, storage_elements

TYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.complex64, torch.complex128, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.bool,
]  # fmt: skip


def kept(folder, **tensors):
    """The tensors after a detour through a Case's tensor file, as the inputs of a graph."""
    file = TensorFile()
    stored = file.add_inputs(tensors)
    storages = {}
    inputs = [
        TensorInput(name, tensor_meta(t, storages), stored[name], t.is_leaf, isinstance(t, torch.nn.Parameter))
        for name, t in tensors.items()
    ]
    path = file.write(folder / "tensors.safetensors")
    return lambda: make_inputs(inputs, StoredTensors(path), None)


def windows(folder, **tensors):
    """The same, where the graph may reach beyond its inputs."""
    file = TensorFile()
    sizes = {name: storage_elements(t) for name, t in tensors.items()}
    stored = file.add_inputs(tensors, [name for name, size in sizes.items() if size])
    inputs = [
        TensorInput(name, tensor_meta(t, {}), stored[name], t.is_leaf, storage=sizes[name])
        for name, t in tensors.items()
    ]
    path = file.write(folder / "tensors.safetensors")
    return inputs, make_inputs(inputs, StoredTensors(path), None)


def bits(tensor):
    return tensor.detach().contiguous().flatten().view(torch.uint8).tolist() if tensor.numel() else []


SHAPES = [(2, 3), (), (0, 4), (1,)]


@pytest.mark.parametrize(("dtype", "shape"), [(dtype, SHAPES[n % 4]) for n, dtype in enumerate(TYPES)], ids=str)
def test_every_type_and_shape_keeps_its_bits(tmp_path, dtype, shape):
    tensor = (torch.randn(shape) * 3).to(dtype)
    (back,) = kept(tmp_path, x=tensor)()
    assert (back.dtype, back.shape, back.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    assert bits(back) == bits(tensor)


BASE = torch.arange(24.0).reshape(4, 6)
VIEWS = {
    "transposed": BASE.t(),
    "every second": BASE[:, ::2],
    "from the middle": BASE[2:, 3:],
    "expanded": torch.arange(3.0)[None].expand(4, 3),
    "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
    "channels last": torch.randn(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
    "one channel, channels last": torch.arange(12.0).as_strided((2, 1, 3, 2), (6, 1, 2, 1)),
    "one element": torch.ones(5)[::5],
    "overlapping": torch.arange(7.0).as_strided((3, 2), (2, 1), 1),
    "conjugated": torch.randn(3, dtype=torch.complex64).conj(),
    "special": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45]),
    "complex, transposed": torch.randn(2, 3, dtype=torch.complex64).t(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_strides_and_values_stay(tmp_path, name):
    (back,) = kept(tmp_path, x=VIEWS[name])()
    assert back.stride() == VIEWS[name].stride()
    torch.testing.assert_close(back, VIEWS[name].resolve_conj(), rtol=0, atol=0, equal_nan=True)


def test_a_held_tensor_keeps_the_strides_of_dimensions_of_size_one(tmp_path):
    weight, file = VIEWS["one channel, channels last"], TensorFile()
    file.add("weight", weight)
    back = StoredTensors(file.write(tmp_path / "tensors.safetensors")).get("weight")
    assert back.stride() == weight.stride() and torch.equal(back, weight)


def test_inputs_that_share_memory_still_do_and_no_two_calls_share(tmp_path):
    base = torch.arange(12.0)
    make = kept(tmp_path, whole=base, half=base[6:].view(2, 3), turned=base.view(3, 4).t(), alone=torch.ones(2))
    whole, half, turned, alone = make()
    assert half.storage_offset() == 6 and turned.stride() == (1, 4)
    whole[7] = -1.0
    assert half[0, 1] == -1 and turned[3, 1] == -1 and alone.tolist() == [1, 1]
    again, *_ = make()
    assert again[7] == 7


def test_gradients_leaves_and_parameters(tmp_path):
    leaf = torch.randn(2, requires_grad=True)
    made = kept(
        tmp_path,
        leaf=leaf,
        result=leaf * 2,
        parameter=torch.nn.Parameter(torch.ones(2)),
        frozen=torch.nn.Parameter(torch.ones(2), False),
        plain=torch.ones(2),
    )()
    assert [t.requires_grad for t in made] == [True, True, True, False, False]
    assert [t.is_leaf for t in made] == [True, False, True, True, True]
    assert [isinstance(t, torch.nn.Parameter) for t in made] == [False, False, True, True, False]
    made[1].add_(1)


class Tagged(torch.Tensor):
    """A tensor subclass."""


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (torch.ones(2).as_subclass(Tagged), r"input x is a .*Tagged, a tensor subclass"),
        (torch.eye(2).to_sparse(), "input x is a sparse_coo tensor"),
        (torch.eye(2).to_sparse_csr(), "input x is a sparse_csr tensor"),
        (torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "input x is a quantised tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_more_than_numbers_is_refused_by_name(tensor, said):
    with pytest.raises(CannotSave, match=said):
        TensorFile().add_inputs({"x": tensor})


@pytest.mark.parametrize("dtype", TYPES[::3], ids=str)
def test_recorded_values_keep_bits_and_strides(tmp_path, dtype):
    def f(x):
        return x.t(), x[1], x.reshape(-1)[:0]

    x = (torch.randn(2, 3) * 3).to(dtype)
    module = torch.fx.symbolic_trace(f)
    names = [node.name for node in module.graph.nodes if node.op.startswith("call")]
    Recorder(module, names, tmp_path).record([x])
    recorded = RecordedValues(tmp_path)
    for name, value in zip(["t", "getitem", "getitem_1"], f(x), strict=True):
        back = recorded.get(name)
        assert name in recorded and bits(back) == bits(value)
        assert (back.dtype, back.stride()) == (value.dtype, value.stride())


def test_a_value_is_recorded_before_a_later_op_changes_it(tmp_path):
    def f(x):
        y = x * 2
        y.add_(1)
        return y

    module = torch.fx.symbolic_trace(f)
    Recorder(module, ["mul", "add_"], tmp_path).record([torch.ones(2)])
    recorded = RecordedValues(tmp_path)
    assert recorded.get("mul").tolist() == [2, 2] and recorded.get("add_").tolist() == [3, 3]
    recorded.get("mul").zero_()
    assert recorded.get("mul").tolist() == [2, 2], "a recorded value was changed through its copy"


@pytest.mark.parametrize(
    ("base", "views"),
    [
        (torch.arange(24.0).reshape(4, 6), lambda x: {"y": x[1:], "x": x}),
        (torch.arange(24.0).reshape(4, 6), lambda x: {"x": x[:3], "y": x[1:, 2:]}),
        (torch.arange(24, dtype=torch.int16).reshape(4, 6), lambda x: {"x": x, "y": x.t()}),
    ],
)
def test_a_view_keeps_its_base(tmp_path, base, views):
    """AOTAutograd looks at the base of each view, not only at the storage."""
    tensors = views(base)
    back = dict(zip(tensors, kept(tmp_path, **tensors)(), strict=True))
    bases = {name: next((n for n, t in tensors.items() if t is tensor._base), None) for name, tensor in tensors.items()}
    for name, tensor in back.items():
        assert bits(tensor) == bits(tensors[name])
        assert (tensor._base is None) == (tensors[name]._base is None)
        assert bases[name] is None or tensor._base is back[bases[name]]
    assert (back["x"]._base is back["y"]._base) == (tensors["x"]._base is tensors["y"]._base)
    back["x"].zero_()
    assert not back["y"].flatten()[0]


def test_tensors_of_one_storage_that_are_no_views_stay_that(tmp_path):
    x = torch.arange(6.0)
    one, other = kept(tmp_path, x=x, y=x.detach())()
    assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    assert one._base is not other and other._base is not one


@pytest.mark.parametrize(("offset", "dtype"), [(0, torch.float32), (5000, torch.complex64)])
def test_what_lies_beyond_a_window_is_kept(tmp_path, offset, dtype):
    arena = torch.randn(8000, dtype=dtype)
    window = arena[offset : offset + 10]
    ((item,), (back,)) = windows(tmp_path, x=window)
    assert item.storage == 8000 and bits(back) == bits(window)
    assert back.storage_offset() == offset and bits(back.as_strided((8000,), (1,), 0)) == bits(arena)


@pytest.mark.parametrize(("leaf", "requires_grad"), [(True, False), (True, True), (False, True)])
def test_a_drawn_window_has_its_storage(leaf, requires_grad):
    meta = TensorMeta((2, 3), (6, 1), "float32", requires_grad=requires_grad, offset=4)
    item = TensorInput("x", meta, Drawn("randn"), leaf, storage=30)
    (x,) = make_inputs([item], StoredTensors(None), None)
    assert x.untyped_storage().nbytes() == 120 and x.storage_offset() == 4 and x.stride() == (6, 1)
    assert (x.is_leaf, x.requires_grad) == (leaf, requires_grad)
    torch.manual_seed(0)
    assert torch.equal(x, torch.randn(30).as_strided((2, 3), (6, 1), 4))


# A failure that takes less of its values than it looks; more of these in tests/engine/test_refused.py.


def test_recorded_values_are_as_large_as_they_are_said_to_be(tmp_path):
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.sin, (graph.placeholder("x"),)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    x = torch.arange(6.0).view(2, 3)
    Recorder(module, ["sin"], tmp_path).record([x])
    recorded = RecordedValues(tmp_path)

    def made(*shape, dtype="float32"):
        stride = torch.empty(shape).stride()
        item = TensorInput("a", TensorMeta(shape, stride, dtype), Recorded("sin"))
        return make_inputs((item,), StoredTensors(None), recorded)[0]

    assert torch.equal(made(2, 3), x.sin()) and torch.equal(made(2, 1), x.sin()[:, :1])
    assert torch.equal(made(2), x.sin()[0, :2]) and made(1, dtype="float64").dtype == torch.float64
    with pytest.raises(NotRecorded):
        made(3, 3)
