"""Small Cases, one for each kind of failure, with backends that really fail so."""

from __future__ import annotations

from dataclasses import replace

from case_samples import call, graph, meta, method, output, placeholder

from minifier.data.case import (
    BackendReference,
    BackendSource,
    Call,
    Case,
    Drawn,
    Ref,
    ScalarInput,
    State,
    Symbolic,
    TensorInput,
)
from minifier.data.case.values import Scalar
from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Frame, Kind, Stage, Tolerance

CRASH, CONDITION = "minifier_backends.faulty.crash", "minifier_backends.faulty.condition"
PREDICATE = '''"""Whether the results differ by more than a hundredth."""

import math

LIMIT = 1e-2


def differs(compiled, eager):
    return any(not math.isclose(c.sum(), e.sum(), rel_tol=LIMIT) for c, e in zip(compiled, eager))
'''


def backend(name: str, **options) -> BackendReference:
    module = "oddlib" if name.startswith("oddlib") else "minifier_backends.faulty"
    return BackendReference(name, BackendSource.REGISTERED, f'"{name}"', (f"import {module}",), options=options or None)


def raised(stage: Stage, kind: str, message: str, module: str, function: str) -> Failure:
    place = Frame(module, function)
    return Failure(
        Fingerprint(stage, Kind.EXCEPTION, (kind,), place, place, message), kind, message.replace("<number>", "7")
    )


def differs(aspect: Aspect, where: str = "output 0", sentence: str = "output 0 is off by 0.02", **numbers) -> Failure:
    kind = Kind.NON_FINITE if aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    fingerprint = Fingerprint(Stage.COMPARE, kind, message=aspect.value)
    return Failure(fingerprint, kind.value, sentence, differences=(Difference(aspect, where, sentence, **numbers),))


def dies(stage: Stage, kind: Kind, message: str) -> Failure:
    return Failure(Fingerprint(stage, kind, message=message), kind.value, message)


def of_op(backend: BackendReference, failure: Failure, target: str = "torch.tanh", grad: bool = False, **more) -> Case:
    """A function of one tensor and one op."""
    own = replace(meta(2, 3), requires_grad=grad)
    name = target.rpartition(".")[2]
    node = call(name, target, Ref("x"), value=own)
    item = TensorInput("x", own, Drawn("randn"))
    return Case(graph(placeholder("x", own), node, output(name)), (item,), backend, failure, **more)


NO_LOWERING = raised(
    Stage.COMPILE, "minifier_backends.errors.LoweringError", "no lowering for tanh", CRASH, "faulty_raise"
)
NO_MEMORY = Failure(
    Fingerprint(
        Stage.COMPILE, Kind.OUT_OF_MEMORY, site=Frame("oddlib.deadly", "oddlib_ends"), message="no more memory"
    ),
    "RuntimeError",
    "can't allocate memory",
)
NO_ANSWER = raised(
    Stage.COMPILE,
    "minifier_backends.errors.TransientError",
    "compile server did not answer while lowering tanh",
    CONDITION,
    "faulty_flaky",
)
NO_BACKWARD = raised(
    Stage.BACKWARD_COMPILE,
    "minifier_backends.errors.LoweringError",
    "no lowering for tanh_backward in a backward graph",
    CONDITION,
    "faulty_backward",
)
BAD_KERNEL = raised(
    Stage.BACKWARD_RUN,
    "minifier_backends.errors.KernelError",
    "kernel of tanh_backward failed: invalid launch configuration",
    CRASH,
    "faulty_raise",
)
NO_SYMBOL = raised(
    Stage.COMPILE,
    "minifier_backends.errors.DynamicShapeError",
    "tanh needs a size that is known when compiling",
    CONDITION,
    "faulty_dynamic",
)
GIVES_UP = Failure(
    Fingerprint(Stage.COMPILE, Kind.SILENT_FALLBACK, message="graph of <number> nodes runs in eager"),
    "silent-fallback",
    "graph of 3 nodes runs in eager",
)


def _two_results() -> Case:
    """Three results: a float, its integers, and another float; gradients of the first and last."""
    x, w = (replace(meta(2, 3), requires_grad=True) for _ in "xw")
    a = call("tanh", "torch.tanh", Ref("x"), value=x)
    b = call("argmax", "torch.argmax", Ref("tanh"), value=meta(dtype="int64"))
    c = call("mul", "operator.mul", Ref("tanh"), Ref("w"), value=x)
    inputs = tuple(TensorInput(name, m, Drawn("randn")) for name, m in (("x", x), ("w", w)))
    nodes = graph(placeholder("x", x), placeholder("w", w), a, b, c, output("tanh", "argmax", "mul"))
    return Case(nodes, inputs, backend("faulty_backward"), NO_BACKWARD, backward=True)


def _symbolic(how: Symbolic) -> Case:
    """tanh(x) + n, n being the first size of x and a placeholder of its own, as Dynamo makes it."""
    own = replace(meta(4, 3), symbols=("s0", None))
    nodes = graph(
        placeholder("s0", Scalar(4, "s0")),
        placeholder("x", own),
        call("tanh", "torch.tanh", Ref("x"), value=own),
        call("add", "operator.add", Ref("tanh"), Ref("s0"), value=own),
        output("add"),
    )
    inputs = (ScalarInput("s0", 4, "s0"), TensorInput("x", own, Drawn("randn")))
    return Case(nodes, inputs, backend("faulty_dynamic"), NO_SYMBOL, symbolic=how)


def _second_number() -> Case:
    """x / n, n being another float in each call; the backend empties x."""
    nodes = graph(
        placeholder("n", Scalar(2.0, "zf0")),
        placeholder("x"),
        call("div", "operator.truediv", Ref("x"), Ref("n"), value=meta(2, 3)),
        output("div"),
    )
    inputs = (ScalarInput("n", 2.0, "zf0"), TensorInput("x", meta(2, 3), Drawn("randn")))
    failure = differs(Aspect.MUTATION, "input x after the call", "input x after the call is off by 1", error=1.0)
    return Case(nodes, inputs, backend("oddlib_overwrites"), failure, symbolic=Symbolic.AUTOMATIC)


VIEW = Case(
    graph(placeholder("x"), method("view", "view", Ref("x"), -1, value=meta(6)), output("view")),
    (TensorInput("x", meta(2, 3), Drawn("randn")),),
    backend("faulty_stride", op="view"),
    differs(Aspect.ALIASING, sentence="output 0 does not share memory with the input x, in eager it does"),
)
WRONG = differs(Aspect.VALUES, error=0.02, eager_error=1e-8, noise=1e-8)
BACKWARD = backend("faulty_wrong", level="backward", op="tanh_backward")
OVER = "output 0 is written over the result of an earlier call"
FLAKY = backend("faulty_flaky", probability=0.6)
DETACHED = differs(Aspect.AUTOGRAD, sentence="output 0 does not require grad, in eager it does")
# The seed makes no positive definite matrix of this.
CHOLESKY = of_op(backend("oddlib_forgiving"), differs(Aspect.NO_EXCEPTION, "the call"), "torch.linalg.cholesky")

CASES = {
    "values": of_op(backend("faulty_wrong"), WRONG),
    "values in no_grad": of_op(backend("faulty_wrong"), WRONG, state=State(grad=False)),
    "values by the user's tolerance": of_op(
        backend("faulty_wrong", factor=1.2), WRONG, measure=Tolerance(rtol=0.05, atol=1e-3)
    ),
    "a small error": of_op(
        backend("faulty_wrong", factor=1 + 3e-6),
        differs(Aspect.VALUES, error=2e-6, eager_error=1e-8, noise=1e-8),
    ),
    "NaN": of_op(backend("faulty_nan"), differs(Aspect.NON_FINITE, error=float("nan"))),
    "dtype": of_op(backend("faulty_dtype"), differs(Aspect.DTYPE)),
    "stride": of_op(backend("faulty_stride"), differs(Aspect.STRIDE)),
    "shape": of_op(backend("oddlib_narrow"), differs(Aspect.SHAPE), "torch.sin"),
    "no gradient": of_op(backend("oddlib_detached"), DETACHED, "torch.sin", grad=True, backward=True),
    "random": of_op(backend("faulty_wrong", op="dropout", factor=1.5), WRONG, "torch.nn.functional.dropout"),
    "in place": of_op(backend("faulty_wrong", op="tanh_"), WRONG, "torch.tanh_"),
    "mutation": of_op(
        backend("oddlib_overwrites"), differs(Aspect.MUTATION, "input x after the call", error=1.0), "torch.sin"
    ),
    "gradient": of_op(
        BACKWARD, differs(Aspect.GRADIENT, "gradient of x", error=0.02), grad=True, backward=True
    ),
    "aliasing": VIEW,
    "overwritten": of_op(
        backend("oddlib_buffers"), differs(Aspect.OVERWRITTEN, sentence=OVER), before=(Call(times=2),)
    ),
    "no exception": replace(
        CHOLESKY,
        graph=graph(
            placeholder("x", meta(3, 3)), call("cholesky", "torch.linalg.cholesky", Ref("x")), output("cholesky")
        ),
        inputs=(TensorInput("x", meta(3, 3), Drawn("randn")),),
    ),
    "predicate": of_op(
        backend("faulty_wrong", factor=1.1), differs(Aspect.PREDICATE), measure=Tolerance(predicate=PREDICATE)
    ),
    "flaky values": of_op(backend("faulty_wrong"), WRONG, rate=0.9),
    "backward": of_op(backend("faulty_backward"), NO_BACKWARD, grad=True, backward=True),
    "backward of two results": _two_results(),
    "backward at run time": of_op(
        backend("faulty_raise", level="backward", op="tanh_backward", stage="run"),
        BAD_KERNEL, grad=True, backward=True,
    ),
    "flaky": of_op(FLAKY, NO_ANSWER, rate=0.6),
    "flaky at run time": of_op(
        backend("faulty_flaky", probability=0.6, stage="run"),
        replace(NO_ANSWER, fingerprint=replace(NO_ANSWER.fingerprint, stage=Stage.RUN)), rate=0.6,
    ),
    "flaky in no_grad": of_op(FLAKY, NO_ANSWER, rate=0.6, state=State(grad=False)),
    "signal": of_op(backend("faulty_segfault"), dies(Stage.COMPILE, Kind.SIGNAL, "SIGSEGV")),
    "signal in the backward pass": of_op(
        backend("faulty_abort", level="backward", op="tanh_backward"),
        dies(Stage.BACKWARD_COMPILE, Kind.SIGNAL, "SIGABRT"), grad=True, backward=True,
    ),
    "hang": of_op(backend("faulty_hang"), dies(Stage.COMPILE, Kind.TIMEOUT, "no end"), patience=3.0),
    "exit with status 0": of_op(
        replace(backend("oddlib_ends", how="exit well", stage="compile"), imports=("import oddlib.deadly",)),
        dies(Stage.COMPILE, Kind.EXIT, "exit status 0"),
    ),
    "no more memory": of_op(
        replace(backend("oddlib_ends", how="hoard", stage="compile"), imports=("import oddlib.deadly",)), NO_MEMORY
    ),
    "dynamic=True": _symbolic(Symbolic.GIVEN),
    "a size marked dynamic": _symbolic(Symbolic.MARKED),
    "a second size": _symbolic(Symbolic.AUTOMATIC),
    "a second number, inputs after the call": _second_number(),
    "silent fallback": of_op(backend("oddlib_gives_up"), GIVES_UP),
    "exception": of_op(backend("faulty_raise"), NO_LOWERING),
}  # fmt: skip
