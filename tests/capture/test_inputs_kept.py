"""The inputs of a failing call are those that it was given, whatever the backend did to them."""

import pytest
import torch

from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(120)


def stored(case):
    return [StoredTensors(case.tensors).get(item.source.key) for item in case.inputs]


@pytest.mark.parametrize("change", ["del inputs[:]", "inputs[0] = inputs[0].to(torch.bfloat16)[:2]"])
def test_of_a_backend_that_puts_others_into_its_list(bureau, change):
    captured = bureau.capture(f"""
        import torch

        def backend(gm, inputs):
            {change}
            raise RuntimeError("no lowering")

        torch.compile(torch.sigmoid, backend=backend)(torch.full((4,), 2.0))
    """)
    (failing,) = captured.failing
    assert failing.unsaved == "" and torch.equal(stored(bureau.case())[0], torch.full((4,), 2.0))


def test_of_compiled_code_that_changes_them_before_it_raises(bureau):
    captured = bureau.capture("""
        import torch

        def backend(gm, inputs):
            def run(x):
                x.zero_()
                raise RuntimeError("no kernel")

            return run

        torch.compile(torch.sigmoid, backend=backend)(torch.full((4,), 2.0))
    """)
    (failing,) = captured.failing
    assert failing.inputs_lost
    seen, case, _ = bureau.capture_again(captured)
    assert seen.inputs_lost == "" and torch.equal(stored(case)[0], torch.full((4,), 2.0))
