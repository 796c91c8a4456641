"""Private APIs of torch for modes and configuration, used: a release that changes one fails here, by name."""

import inspect

import pytest
import torch
from torch.overrides import TorchFunctionMode

from minifier.torch_side import torch_private as private

X = torch.ones(2, 3)


class Quiet(TorchFunctionMode):
    """A mode of the user's."""


def modes():
    return (
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.zeros(1).device.type,
        private.inference_mode_outside(),
        private.default_device(),
        private.other_function_modes(),
    )


def seen_by_a_backend(around):
    """(modes while compiling, modes while running) of a function that is compiled and called in a context."""
    found = []

    def backend(gm, example_inputs):
        found.append(modes())

        def run(*args):
            found.append(modes())
            return gm.forward(*args)

        return run

    torch._dynamo.reset()
    with around:
        torch.compile(lambda x: torch.sin(x) + 1, backend=backend)(X)
    return found


def noted(around):
    def work():
        private.note_inference_mode()
        return seen_by_a_backend(around)

    return work


def test_inference_mode_is_known_while_dynamo_compiles_without_it(forked):
    compiling, running = forked(noted(torch.inference_mode()))
    assert compiling[:2] == (False, False) and compiling[3] is True
    assert running[:2] == (True, False) and running[3] is False
    compiling, running = forked(noted(torch.no_grad()))
    assert compiling[:2] == running[:2] == (False, False) and compiling[3] is False


@pytest.mark.parametrize("everywhere", [True, False])
def test_the_default_device_is_known_while_dynamo_has_taken_it_off(forked, everywhere):
    def work():
        if everywhere:
            torch.set_default_device("meta")
        return seen_by_a_backend(torch.enable_grad() if everywhere else torch.device("meta"))

    compiling, running = forked(work)
    assert (compiling[2], compiling[4]) == ("cpu", "meta") and (running[2], running[4]) == ("meta", "meta")
    assert private.default_device() is None


def test_a_function_mode_of_the_users_is_known():
    assert private.other_function_modes() == []
    with torch.device("meta"), Quiet():
        found = private.other_function_modes(), private.default_device()
    assert found == ([f"{__name__}.Quiet"], "meta")


def test_modes_come_off_as_dynamo_takes_them_off(forked):
    compiling, _ = forked(noted(torch.inference_mode()))
    with torch.inference_mode(), torch.device("meta"):
        assert torch.zeros(1).device.type == "meta" and torch.zeros(1).is_inference()
        with private.as_while_compiling():
            assert modes()[:3] == compiling[:3] == (False, False, "cpu")
        with private.without_modes():
            assert modes()[:3] == (False, True, "cpu") and not torch.zeros(1).is_inference()
        assert modes()[:3] == (True, False, "meta")
    with private.as_while_compiling():
        assert torch.is_grad_enabled()


def test_a_value_that_a_variable_forces_is_set_all_the_same(forked):
    def work():
        import os
        import sys
        import types

        from torch.utils import _config_module

        os.environ["ODD_FORCED"] = "1"
        module = types.ModuleType("odd_settings")
        module.__file__ = __file__
        sys.modules["odd_settings"] = module
        module.forced = _config_module.Config(default=False, env_name_force="ODD_FORCED")
        _config_module.get_assignments_with_compile_ignored_comments = lambda module: set()
        _config_module.install_config_module(module)
        before = module.forced
        module.forced = False
        still = module.forced
        private.set_config("odd_settings", "forced", False)
        return before, still, module.forced

    assert forked(work) == (True, True, False)


def test_which_configuration_there_is():
    assert private.has_config("torch._dynamo.config", "recompile_limit")
    assert private.has_config("torch._inductor.config", "triton.cudagraphs")
    assert not private.has_config("torch._dynamo.config", "no_such_key")
    with pytest.raises(ImportError):
        private.has_config("no.such.module", "key")


def test_the_kinds_of_devices_beside_the_cpu():
    assert private.device_kinds() == ("cuda", "xpu", "privateuseone") and not private.is_capturing()


@pytest.mark.xfail(
    not hasattr(torch._C._dynamo.eval_frame._CacheEntry, "backend"),
    reason="torch 2.9 does not tell which backend compiled an entry",
)
def test_code_compiled_for_a_look_alone_is_forgotten():
    """Of the user's own code nothing is, nor do the sizes that were looked at count for it."""
    compilations = []

    def own(gm, example_inputs):
        compilations.append([tuple(node.meta["example_value"].shape) for node in gm.graph.nodes if node.name == "l_x_"])
        return gm.forward

    def looking(gm, example_inputs):
        return gm.forward

    def used(x):
        return x.sin() + 1

    def unused(x):
        return x.cos() + 1

    torch._dynamo.reset()
    compiled = torch.compile(used, backend=own)
    compiled(torch.ones(3))
    for size in range(4, 16):  # more than Dynamo compiles of one code
        with private.dynamo_caches_restored(lambda compiler: private.asked_backend(compiler).function is looking):
            for function in (used, unused):
                private.isolated_compile(function, looking)(torch.ones(size))
        assert (private.compiled_entries(used.__code__), private.compiled_entries(unused.__code__)) == (
            1,
            0,
        )
    compiled(torch.ones(3))
    torch.compile(unused, backend=own)(torch.ones(17))
    assert compilations == [[(3,)], [(17,)]], "compiled again, or with a dynamic size"
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:  # since torch 2.13
        compiled(torch.ones(2))
        assert len(compilations) == 3, "looking has used up the user's recompilations"
