"""The first of several Cases whose whole graph shows the failure, each with imports of its own."""

from dataclasses import replace

import pytest
from vocabulary import Bureau, in_child

from minifier.data.settings import Settings
from minifier.reduction.check import first_shown

pytestmark = pytest.mark.timeout(100)

SCRIPT = """
import minifier_backends.faulty
import torch

torch.compile(lambda x: torch.tanh(x.sin()), backend="faulty_raise")(torch.ones(3))
"""


def test_the_last_of_several_is_found(bureau: Bureau):
    """Each changes the import path of the process; the next finds it as it was."""
    bureau.capture(SCRIPT)
    case = bureau.case()
    other = replace(case.failure, fingerprint=replace(case.failure.fingerprint, message="another message"))
    cases = [*[replace(case, failure=other, script=replace(case.script, path=(), folders=()))] * 4, case]
    found, nothing = in_child(
        lambda: (
            first_shown(cases, len(cases), Settings(), lambda _: None),
            first_shown(cases[:-1], len(cases) - 1, Settings(), lambda _: None),
        ),
        bureau.folder,
        90,
    )
    assert (found.position, found.probes["total"], found.probes["SAME"]) == (4, 5, 1)
    assert (nothing.position, nothing.probes["OTHER"]) == (-1, 4)


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
    found = in_child(lambda: first_shown([case], 1, Settings(), lambda _: None), bureau.folder, 90)
    assert found.position == 0
