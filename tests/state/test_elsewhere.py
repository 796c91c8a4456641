"""Configuration of modules that this torch does not know, and what no repro can hold."""

from dataclasses import replace

import pytest

from minifier.data.case.store import load, save
from minifier.data.case.values import Imported

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
import torch._dynamo.config
import torch._inductor.config
import oddlib


def f(x):
    return torch.cos(torch.tanh(torch.sin(x)))


def own_pass(graph):
    return graph


torch._inductor.config.post_grad_custom_post_pass = own_pass
torch._inductor.config.post_grad_custom_pre_pass = oddlib.backends.called
torch._dynamo.config.cache_size_limit = 3
oddlib.settings.unrolling = 16
torch.compile(f, backend="oddlib_when", options={"when": "own config"})(torch.randn(2, 3))
"""


@pytest.mark.soak
def test_an_alias_is_saved_once_and_a_function_of_the_script_by_its_name(bureau):
    bureau.capture(SCRIPT)
    state = bureau.case().state
    assert state.config == (
        ("oddlib.settings", "unroll", 16),
        ("torch._dynamo.config", "recompile_limit", 3),
        ("torch._inductor.config", "post_grad_custom_pre_pass", Imported("oddlib.backends:called")),
        ("torch._inductor.config", "post_grad_custom_post_pass", Imported("__main__:own_pass")),
    )
    assert state.skipped == ()
    _summary, case = bureau.reduce()
    assert case.state.config == (("oddlib.settings", "unroll", 16),)


def test_a_case_with_configuration_that_is_not_known_here_is_reduced_without_it(bureau):
    bureau.capture(SCRIPT)
    case = bureau.case()
    strange = (
        ("torch._inductor.config", "long_forgotten", True),
        ("torch._vanished.config", "key", 1),
        ("torch._inductor.config", "post_grad_custom_pre_pass", Imported("oddlib.backends:vanished")),
    )
    config = (*strange, ("oddlib.settings", "unroll", 16))
    switches = (("teleport", True),)
    folder = bureau.graphs / "1"
    save(replace(case, state=replace(case.state, config=config, switches=switches, skipped=())), folder)
    assert load(folder).state.config == config
    _summary, minimal = bureau.reduce()
    assert minimal.state.config == (("oddlib.settings", "unroll", 16),)
    told = "\n".join(minimal.state.skipped)
    assert all(name in told for name in ("long_forgotten", "torch._vanished", "vanished", "teleport")), told
    assert len(minimal.state.skipped) == 4 and minimal.state.switches == ()


@pytest.mark.usefixtures("soak")
def test_what_the_environment_sets_is_written_as_configuration(project):
    """The interpreter that runs a repro does not have the variable."""
    text = """
        import torch
        import oddlib

        def f(x):
            return torch.cos(torch.tanh(torch.sin(x)))

        torch.compile(f, backend="oddlib_when", options={"when": "tuned"})(torch.randn(2, 3))
    """
    done = project.run(text, TORCHINDUCTOR_MAX_AUTOTUNE="1", TORCHINDUCTOR_FREEZING="1")
    assert done.code == 0, done.stderr
    captured = load(done.out / "case").state
    assert {key for _, key, _ in captured.config} == {"max_autotune", "freezing"}
    assert dict(captured.environment)["TORCHINDUCTOR_FREEZING"] == "1"
    assert "torch._inductor.config.max_autotune = True" in done.repro and "freezing" not in done.repro


def test_a_mode_of_the_users_is_told_in_the_case(bureau):
    bureau.capture("""
        import torch
        import oddlib
        from torch.overrides import TorchFunctionMode

        class Quiet(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with Quiet():
            torch.compile(torch.tanh, backend="oddlib_tanh")(torch.randn(2, 3))
    """)
    assert bureau.case().state.skipped == ("__main__.Quiet, a torch function mode that is on",)
