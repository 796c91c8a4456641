"""How a repro gets the operators that its graph calls."""

import pytest
import torch

from minifier.capturing.backend_reference import operator_imports
from minifier.torch_side.torch_private import registrations

OP = "torch.ops.late.same.default"


@pytest.mark.parametrize(
    ("stack", "imports", "defined"),
    [
        ((), (), ()),
        ((("late.ops", "<module>"), ("late", "<module>"), ("__main__", "<module>")), ("import late",), ()),
        ((("torch._late.ops", "<module>"), ("torch._late", "f")), ("import torch._late.ops",), ()),
        ((("late", "define"), ("__main__", "<module>")), (), ("late::same",)),
    ],
    ids=["as torch begins", "a package", "a module of torch that compiling imports", "the script"],
)
def test_what_defined_an_operator_is_imported(monkeypatch, stack, imports, defined):
    monkeypatch.setattr(registrations, "operator_stack", lambda name: stack if name == "late::same" else ())
    assert operator_imports([OP, "torch.ops.aten.add.Tensor", "torch.sin"]) == (imports, defined)


def test_who_registered_a_backend_or_defined_an_operator_is_known(forked):
    def passing(gm, inputs):
        return gm.forward

    def work():
        assert registrations.registration_stack("surely_new") == registrations.operator_stack("surelynew::same") == ()
        registrations.note_registrations()
        registrations.note_registrations()

        def register_it():
            torch._dynamo.register_backend(passing, name="surely_new")
            schema = "(Tensor x) -> Tensor"
            torch.library.custom_op("surelynew::same", lambda x: x.clone(), mutates_args=(), schema=schema)

        register_it()
        stacks = registrations.registration_stack("surely_new"), registrations.operator_stack("surelynew::same")
        return stacks, registrations.registered_names(passing)

    stacks, names = forked(work)
    for stack in stacks:
        assert stack.index((__name__, "register_it")) < stack.index((__name__, "work"))
    assert names == ["surely_new"]
