"""Repros of failures that depend on earlier calls of the backend: these calls come first, in their order."""

from dataclasses import replace

import pytest
from case_samples import call, graph, meta, output, placeholder

from minifier.case import BackendReference, BackendSource, CallAhead, Case, Drawn, Ref, TensorInput
from minifier.case.call_ahead import call_ahead
from minifier.emit.repro import Template, forms_for, write_repro
from minifier.failure import Failure, Fingerprint, Kind, Stage

FAILURE = Failure(Fingerprint(Stage.RUN, Kind.EXCEPTION, ("RuntimeError",), message="full"), "RuntimeError", "full")
NAMED = BackendReference("acme", BackendSource.REGISTERED, '"acme"', ("import acme",))
MADE = BackendReference("acme", BackendSource.EXPRESSION, "acme.Backend(2)", ("import acme",))


def case_of(op: str, *shape: int, backend: BackendReference = NAMED, **more: object) -> Case:
    """One op on an input of this shape."""
    value = meta(*shape)
    nodes = placeholder("x", value), call("y", f"torch.{op}", Ref("x"), value=value), output("y")
    return Case(graph(*nodes), (TensorInput("x", value, Drawn("ones")),), backend, FAILURE, **more)


def early(op: str, *shape: int, **more: object) -> CallAhead:
    return replace(call_ahead(case_of(op, *shape)), **more)


def action(case: Case) -> list[str]:
    """The statements of the repro from the first input on, and the definitions ahead of the failing function."""
    text = write_repro(case, forms_for(case)[0][0]).text
    return text.partition("x = torch.ones")[2].partition("\n\n#")[0].splitlines()[1:]


@pytest.mark.parametrize(
    ("case", "statements"),
    [
        (
            case_of("tanh", 2, ahead=(early("tanh", 3), early("tanh", 4, calls=2))),
            [
                'compiled = torch.compile(fn, backend="acme", dynamic=False)',
                "compiled(torch.ones(3))",
                "for _ in range(2):",
                "    compiled(torch.ones(4))",
                "compiled(x)",
            ],
        ),
        (
            case_of("tanh", 2, ahead=(early("tanh", 2), early("relu", 5, backward=True))),
            [
                'torch.compile(earlier, backend="acme")(torch.ones(2))',
                'torch.compile(earlier2, backend="acme")(torch.ones(5)).sum().backward()',
                'torch.compile(fn, backend="acme")(x)',
            ],
        ),
        (
            case_of("tanh", 2, calls=3, ahead=(early("relu", 5, late=True),)),
            [
                'compiled = torch.compile(fn, backend="acme")',
                "for _ in range(2):",
                "    compiled(x)",
                'torch.compile(earlier, backend="acme")(torch.ones(5))',
                "compiled(x)",
            ],
        ),
        (
            case_of("tanh", 2, backend=MADE, ahead=(early("relu", 5),)),
            ["torch.compile(earlier, backend=backend)(torch.ones(5))", "torch.compile(fn, backend=backend)(x)"],
        ),
    ],
)
def test_the_calls_ahead_come_first(case, statements):
    assert action(case) == statements


def test_several_calls_share_one_backend_and_have_functions_of_their_own():
    text = write_repro(case_of("tanh", 2, backend=MADE, ahead=(early("relu", 5),)), Template.COMPILE_FUNCTION).text
    assert text.count("acme.Backend(2)") == 1 and "backend = acme.Backend(2)\n" in text
    assert "def earlier(x):\n    return torch.relu(x)\n" in text and "def fn(x):\n    return torch.tanh(x)\n" in text
    assert "the calls of the backend ahead of the last one" in text
