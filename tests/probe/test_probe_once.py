"""A probe of a Case that imports the backend itself, so that the Case may differ in what is imported ahead of it."""

import pytest
from vocabulary import Bureau, in_child

from minifier.data.settings import Settings
from minifier.reduction.check import probe_once

pytestmark = pytest.mark.timeout(100)

SCRIPT = """
import minifier_backends.faulty
import torch

torch.compile(lambda x: torch.tanh(x.sin()), backend="faulty_raise")(torch.ones(3))
"""


LATE = """
import torch

@torch.library.custom_op("late::same", mutates_args=(), schema="(Tensor x) -> Tensor")
def same(x):
    return x.clone()

same.register_fake(torch.empty_like)
"""


def test_a_graph_with_an_op_that_only_an_import_defines(bureau: Bureau):
    """This process does not import it: only the children know the op."""
    (bureau.folder / "late.py").write_text(LATE)
    text = SCRIPT.replace("import torch\n", "import late\nimport torch\n")
    bureau.capture(text.replace("x.sin()", "torch.ops.late.same(x)"))
    case = bureau.case()
    assert case.script.imports == ("import late",)
    found = in_child(lambda: probe_once(case, "the imports", Settings(), lambda _: None), bureau.folder, 90)
    assert found.holds and (found.probes["total"], found.probes["SAME"]) == (1, 1)
