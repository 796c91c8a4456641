"""Small Cases, written down by hand: what the tests of the Case and of its readers start from."""

from __future__ import annotations

from minifier.data.case import (
    BackendReference,
    BackendSource,
    Case,
    Drawn,
    Graph,
    Node,
    Ref,
    ScalarInput,
    Script,
    State,
    TensorInput,
    TensorMeta,
)
from minifier.data.case.values import Scalar
from minifier.data.failure import Failure, Fingerprint, Frame, Kind, Stage


def meta(*shape: int, dtype: str = "float32", storage: int | None = None) -> TensorMeta:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return TensorMeta(shape, tuple(reversed(steps)), dtype, storage=storage)


def call(name: str, target: str, *args, value=None, **kwargs) -> Node:
    return Node(name, "call_function", target, args, kwargs, value or meta(2, 3))


def method(name: str, target: str, *args, value=None, **kwargs) -> Node:
    return Node(name, "call_method", target, args, kwargs, value or meta(2, 3))


def placeholder(name: str, value=None) -> Node:
    return Node(name, "placeholder", name, value=value or meta(2, 3))


def output(*names: str) -> Node:
    return Node("output", "output", "output", (tuple(Ref(name) for name in names),))


def graph(*nodes: Node) -> Graph:
    return Graph(tuple(nodes))


def small_case() -> Case:
    """x -> tanh -> add n -> out, refused by a backend because of the tanh."""
    x = placeholder("x")
    n = placeholder("n", Scalar(5, "s0"))
    body = (call("tanh", "torch.tanh", Ref("x")), call("add", "operator.add", Ref("tanh"), Ref("n")))
    place = Frame("oddlib.backends", "oddlib_tanh")
    fingerprint = Fingerprint(Stage.COMPILE, Kind.EXCEPTION, ("RuntimeError",), place, place, "no lowering for tanh")
    return Case(
        Graph((x, n, *body, output("add"))),
        (TensorInput("x", meta(2, 3), Drawn("randn")), ScalarInput("n", 5, "s0")),
        BackendReference(
            "oddlib_tanh", BackendSource.REGISTERED, '"oddlib_tanh"', ("import oddlib",), options={"level": 3}
        ),
        Failure(fingerprint, "RuntimeError", "no lowering for tanh", "Traceback ...", (("tanh",),)),
        State(grad=False, config=(("torch._dynamo.config", "verbose", True),)),
        Script("failing", ("/somewhere",), seconds=1.5),
    )
