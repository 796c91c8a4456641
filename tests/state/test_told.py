"""What the user is told about state: variables that come too late, a mode that no repro can hold, a graph chosen."""

import pytest

pytestmark = pytest.mark.timeout(200)


def test_a_variable_that_the_script_sets_before_it_imports_torch_is_told(minify):
    done = minify(
        """
        import os

        os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
        import torch
        import oddlib

        torch.compile(torch.tanh, backend="oddlib_when", options={"when": "tuned"})(torch.randn(2, 3))
        """
    )
    assert done.code == 1, done.stderr
    assert "TORCHINDUCTOR_MAX_AUTOTUNE=1 minify run" in done.stderr and "imported" in done.stderr


def test_a_mode_of_the_users_is_told_in_the_case(bureau):
    bureau.capture(
        """
        import torch
        import oddlib
        from torch.overrides import TorchFunctionMode

        class Quiet(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with Quiet():
            torch.compile(torch.tanh, backend="oddlib_tanh")(torch.randn(2, 3))
        """
    )
    assert bureau.case().state.skipped == ("__main__.Quiet, a torch function mode that is on",)


def test_a_later_graph_is_reduced_where_the_first_failure_is_harmless(minify):
    done = minify(
        """
        import torch
        import oddlib

        def early(x):
            return torch.cos(torch.tanh(x))

        def late(x):
            return torch.cos(torch.tanh(torch.softmax(torch.sin(x), -1)))

        x = torch.randn(2, 3)
        try:
            torch.compile(early, backend="oddlib_tanh")(x)
        except Exception:
            torch._dynamo.reset()
        torch.compile(late, backend="oddlib_pair")(x)
        """,
        given=["--graph", "2"],
    )
    assert done.code == 0 and done.ops == (4, 2), done.stderr
    assert "* graph 2" in done.stderr and "  graph 1" in done.stderr
    assert "softmax" in done.repro and done.result["backend"]["name"] == "oddlib_pair"
