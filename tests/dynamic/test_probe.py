"""What a backend sees in a probe of a Case with symbolic sizes: what it sees when Dynamo calls it."""

from dataclasses import dataclass, field, replace

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from minifier.case import Drawn, ScalarInput, Symbolic, TensorInput
from minifier.case.ops import with_ops
from minifier.fx.recorded_values import make_inputs
from minifier.fx.tensors import StoredTensors
from minifier.probe.compiling import call_with_symbols

pytestmark = pytest.mark.timeout(120)


@dataclass
class Seen:
    """What a backend was given, in words that do not depend on names of symbols."""

    kinds: list = field(default_factory=list)
    examples: list = field(default_factory=list)
    aten: list = field(default_factory=list)
    called: list = field(default_factory=list)


def looking(seen):
    def compiler(gm, inputs):
        seen.aten.append([sizes_of(value) for value in inputs])
        return make_boxed_func(gm.forward)

    inner = aot_autograd(fw_compiler=compiler)

    def backend(gm, inputs):
        seen.kinds.append([type(value).__name__ for value in inputs])
        seen.examples.append([sizes_of(node.meta.get("example_value")) for node in gm.graph.nodes])
        compiled = inner(gm, inputs)

        def run(*args):
            seen.called.append([type(value).__name__ for value in args])
            return compiled(*args)

        return run

    return backend


def sizes_of(value):
    """Sizes, expressions as text; None for what has none."""
    if isinstance(value, torch.Tensor):
        return tuple(str(size) for size in value.shape), tuple(str(step) for step in value.stride())
    return str(value) if isinstance(value, (int, torch.SymInt)) else None


def probed(case, backend):
    values = make_inputs(case.inputs, StoredTensors(case.tensors), None)
    torch.manual_seed(0)
    compiled, needed = call_with_symbols(backend, case, values, StoredTensors(case.tensors))
    return compiled(*needed(values))


SCRIPT = """
import oddlib, torch

def f(x, y):
    z = torch.cat([x, y.t()])
    return torch.tanh(z).reshape(z.shape[0] * z.shape[1]) * x.shape[0]

"""
CALLS = {
    "given": ("torch.compile(f, backend='oddlib_symbol', dynamic=True)(torch.ones(4, 3), torch.ones(3, 4))", 1),
    "marked": (
        "x = torch.ones(4, 3)\n"
        "torch._dynamo.mark_dynamic(x, 0)\n"
        "torch.compile(f, backend='oddlib_symbol')(x, torch.ones(3, 5))",
        1,
    ),
    "automatic": (
        "c = torch.compile(f, backend='oddlib_symbol')\n"
        "c(torch.ones(4, 3), torch.ones(3, 5))\n"
        "c(torch.ones(6, 3), torch.ones(3, 7))",
        2,
    ),
}


def f(x, y):
    z = torch.cat([x, y.t()])
    return torch.tanh(z).reshape(z.shape[0] * z.shape[1]) * x.shape[0]


def directly(how, backend):
    torch._dynamo.reset()
    if how == "given":
        torch.compile(f, backend=backend, dynamic=True)(torch.ones(4, 3), torch.ones(3, 4))
    elif how == "marked":
        x = torch.ones(4, 3)
        torch._dynamo.mark_dynamic(x, 0)
        torch.compile(f, backend=backend)(x, torch.ones(3, 5))
    else:
        compiled = torch.compile(f, backend=backend)
        compiled(torch.ones(4, 3), torch.ones(3, 5))
        compiled(torch.ones(6, 3), torch.ones(3, 7))
    torch._dynamo.reset()


@pytest.mark.parametrize("how", CALLS)
def test_the_backend_sees_what_dynamo_shows_it(bureau, how):
    call, number = CALLS[how]
    bureau.capture(SCRIPT + call)
    case = bureau.case(number)
    assert case.symbolic is Symbolic(how)
    there, here = Seen(), Seen()
    directly(how, looking(there))
    probed(case, looking(here))
    assert "SymInt" in here.kinds[-1] and "int" in here.called[-1] and "SymInt" not in here.called[-1]
    assert here.kinds[-1] == there.kinds[-1] and here.called[-1] == there.called[-1]
    assert here.examples[-1] == there.examples[-1]
    assert here.aten[-1] == there.aten[-1]


def test_a_size_that_a_parameter_fixes_is_no_symbol(bureau):
    """As with Dynamo: the parameter's size is a number, so is what is multiplied with it, and its input goes."""
    bureau.capture(
        "import oddlib, torch\n"
        "w = torch.nn.Parameter(torch.ones(3, 5))\n"
        "torch.compile(lambda x, w: torch.tanh(torch.sin(x) @ w), backend='oddlib_symbol', dynamic=True)"
        "(torch.ones(4, 3), w)"
    )
    part = with_ops(bureau.case(), ["matmul"])
    assert len([i for i in part.inputs if isinstance(i, ScalarInput)]) == 2
    seen = Seen()
    result = probed(part, looking(seen))
    assert sorted(seen.kinds[0]) == ["Parameter", "SymInt", "Tensor"] and result[0].shape == (4, 5)
    assert seen.called[0].count("int") == 1


def test_sizes_from_values_are_symbols_without_value(bureau):
    bureau.capture(
        """
        import oddlib, torch
        torch._dynamo.config.capture_scalar_outputs = True

        def g(x, b):
            n = b[0].item()
            torch._check(n >= 2)
            torch._check(n <= 16)
            x = x.clone()
            x[: b[1].item()] = 0.5
            return torch.tanh(torch.ones(n) * x)

        torch.compile(g, backend="oddlib_tanh")(torch.ones(1), torch.tensor([3, 9]))
        """
    )
    seen = Seen()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):  # a probe has the Case's configuration
        (result,) = probed(bureau.case(), looking(seen))
    assert result.shape == (3,)
    assert (("u0",), ("1",)) in seen.examples[0] and "u0" in seen.examples[0]


def test_an_op_without_a_fake_form_does_not_stop_a_probe():
    from case_samples import call, graph, output, placeholder, small_case

    from minifier.case import Ref
    from minifier.case.values import Scalar, TensorMeta

    meta = TensorMeta((4, 3), (3, 1), "float32", symbols=("s0", None))
    nodes = (
        placeholder("s0", Scalar(4, "s0")),
        placeholder("x", meta),
        call("a", "torch.sin", Ref("x"), value=meta),
        call("b", "torch.Tensor.numpy", Ref("a"), value=meta),
        output("b"),
    )
    inputs = (ScalarInput("s0", 4, "s0"), TensorInput("x", meta, Drawn("zeros")))
    case = replace(small_case(), graph=graph(*nodes), inputs=inputs, symbolic=Symbolic.AUTOMATIC)
    kinds = []

    def backend(gm, inputs):
        kinds.extend(type(value).__name__ for value in inputs)
        examples = {node.name: node.meta.get("example_value") for node in gm.graph.nodes}
        assert isinstance(examples["a"], torch.Tensor) and examples["b"] is None
        return gm.forward

    result = probed(case, backend)
    assert kinds == ["SymInt", "Tensor"] and result[0].shape == (4, 3)
