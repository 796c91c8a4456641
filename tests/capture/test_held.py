"""Tensors that a graph holds itself are the script's: compared where it writes to them, and left as they were."""

import pytest
import torch
from capture_looks import looked

from minifier.capturing.comparing import as_before, changed_tensors
from minifier.data.case.store import load
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private.autograd import versions_kept

pytestmark = pytest.mark.timeout(150)

STEPS = """
import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func

def compiler(gm, inputs):
    swapped = {torch.ops.aten.sqrt.default: SWAPPED, torch.ops.aten._foreach_sqrt.default: SWAPPED_ALL}
    for node in gm.graph.nodes:
        node.target = swapped.get(node.target, node.target)
    gm.recompile()
    return make_boxed_func(gm.forward)

torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
adam = torch.optim.Adam(model.parameters(), 0.1)
step = torch.compile(adam.step, backend=aot_autograd(fw_compiler=compiler))
for _ in range(2):
    adam.zero_grad()
    model(torch.ones(8, 2)).sum().backward()
    step()
"""
RIGHT = "SWAPPED = torch.ops.aten.sqrt.default\nSWAPPED_ALL = torch.ops.aten._foreach_sqrt.default\n" + STEPS
WRONG = "SWAPPED = torch.ops.aten.rsqrt.default\nSWAPPED_ALL = torch.ops.aten._foreach_rsqrt.default\n" + STEPS


@pytest.mark.soak
def test_the_state_of_an_optimizer_is_not_changed_twice(bureau):
    asks = "assert adam.state[model.weight]['step'].item() == 2, 'it was stepped once more'\n"
    asks += "from pathlib import Path\nwith Path('seen.txt').open('a') as file:\n"
    asks += "    print(model.weight.tolist(), adam.state[model.weight], file=file)\n"
    _, said, _ = looked(bureau, "import torch\n" + RIGHT + asks)
    assert "agreed" in said
    seen = (bureau.folder / "seen.txt").read_text()
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]


COUNTS = """
import torch

torch._dynamo.config.install_free_tensors = True
count = torch.zeros(())

@torch.compile(backend="eager")
def counts(x):
    count.add_(1)
    return (x * count).sin()

counts(torch.ones(3, requires_grad=True)).sum().backward()
assert count.item() == 1, "it was called once more"
"""


def test_gradients_are_compared_with_the_state_that_the_script_had(bureau):
    found, _, _ = looked(bureau, COUNTS)
    assert found.captured.failing == () and found.compared.end.status == 0
    assert [gradients for _, _, gradients in found.compared.compared] == [True]


def test_a_wrong_step_of_an_optimizer_is_seen(bureau):
    found, _, _ = looked(bureau, "import torch\n" + WRONG)
    (failing,) = found.captured.failing
    assert failing.failure.fingerprint.message == "mutation"
    case = load(found.captured.folder / str(failing.number))
    assert len(case.inputs) == len(case.graph.placeholders) > 2
    assert any(node.is_op and node.short_target.endswith("_") for node in case.graph.nodes)


def test_live_tensors_are_wound_back_and_forth(tmp_path):
    file = TensorFile()
    x = torch.ones(2, requires_grad=True)
    written, saved = torch.zeros(3, 2).t(), torch.tensor([float("nan"), 2.0])
    product = (x * saved).sum()
    live = {"written": written, "saved": saved}
    for key, tensor in live.items():
        file.add(key, tensor)
    stored = StoredTensors(file.write(tmp_path / "held.safetensors"))
    written.add_(5)
    assert changed_tensors(live, stored) == {"written"}
    with pytest.raises(ValueError), as_before(live, stored):
        assert written.sum() == 0
        written.add_(1)
        saved.mul_(2)
        raise ValueError
    assert written.tolist() == [[5.0] * 3] * 2 and saved[1] == 2 and saved[0].isnan()
    product.backward()  # as if nothing had been written
    assert written._version == 1 and x.grad[1] == 2


PACKAGE = """
import torch
import torch._inductor.package
import torch.utils._pytree as pytree


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.one = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        self.steps.add_(1)
        return x * self.one * self.steps


class Loader:
    calls = 0

    def get_call_spec(self):
        return [pytree.treespec_dumps(spec) for spec in (program.call_spec.in_spec, program.call_spec.out_spec)]

    def boxed_run(self, tensors):
        self.calls += 1
        return [tensors[0].detach() * {factor}]


def load(*args, **kwargs):
    from torch.export.pt2_archive._package import AOTICompiledModel

    return AOTICompiledModel(Loader())


torch._inductor._aoti_compile_and_package_inner = lambda *args, **kwargs: "program.pt2"  # a minute of C++
torch._inductor.package.load_package = load
model, x = Counter(), torch.randn(4, requires_grad=True)
program = torch.export.export(model, (x,))
package = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program))
results = [package(x) for _ in range(3)]
assert model.steps == 0
"""


@pytest.mark.parametrize(
    ("factor", "wrong"), [pytest.param("self.calls", [], marks=pytest.mark.soak), ("1", [(2, "values")])]
)
def test_a_package_is_compared_call_by_call_with_a_state_of_its_own(bureau, factor, wrong):
    """AOTInductor folds a buffer of one element that the package changes: its results are right in the first call."""
    found, said, _ = looked(bureau, PACKAGE.format(factor=factor))
    assert [(each.call, each.failure.fingerprint.message) for each in found.captured.failing] == wrong
    assert wrong or [call for _, call, _ in found.compared.compared] == [1, 2, 3], said


def test_autograd_does_not_see_that_a_value_was_wound_back():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2)
    y = (x * w).sum()
    with torch.inference_mode():
        counts_nothing = torch.ones(2)
    with versions_kept([w, counts_nothing]):
        w.mul_(3)
        with torch.inference_mode():
            counts_nothing.mul_(3)
    y.backward()  # autograd would complain
    assert w._version == 0 and x.grad.tolist() == [3.0, 3.0]
