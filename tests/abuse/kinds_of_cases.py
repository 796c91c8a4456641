"""Valid Cases of every kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from case_samples import call, graph, meta, output, placeholder, small_case
from case_text import case_of
from safetensors import numpy

from minifier.case import (
    Adapted,
    BackendSource,
    CallAhead,
    Case,
    Drawn,
    Graph,
    Level,
    Node,
    Ref,
    ScalarInput,
    State,
    Stored,
    Symbol,
    Symbolic,
    TensorInput,
)
from minifier.case.graph import Module
from minifier.case.store import save
from minifier.case.stored import TENSORS
from minifier.case.values import Constant, Imported, Scalar, Sequence_, Size, SourceExpression
from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage, Tolerance


def _stored(folder: Path) -> Case:
    """Parameters in a module and as attributes; inputs that are stored, adapted, and views of one storage."""
    numpy.save_file(
        {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 3), np.float32), "b": np.ones(3, np.float32)},
        folder / TENSORS,
    )
    linear = Module("torch.nn.Linear", {"in_features": 3, "out_features": 3}, {"weight": "w", "bias": "b"})
    nodes = (
        placeholder("x"),
        placeholder("y"),
        placeholder("v", meta(3)),
        Node("w", "get_attr", "w", value=meta(3, 3)),
        Node("lin", "call_module", "lin", (Ref("x"),), {}, meta(2, 3)),
        call("mm", "torch.matmul", Ref("lin"), Ref("w")),
        call("add", "operator.add", Ref("mm"), Ref("y")),
        call("mul", "operator.mul", Ref("add"), Ref("v")),
        output("mul"),
    )
    inputs = (
        TensorInput("x", meta(2, 3), Stored("x")),
        TensorInput("y", meta(2, 3), Drawn("rand", -1.0, 2.5)),
        TensorInput("v", meta(3), Stored("x", shared=True, base="x")),
    )
    whole = Graph(nodes, {"w": "w"}, {"lin": linear})
    return replace(small_case(), graph=whole, inputs=inputs, tensors=folder / TENSORS)


def _branches(_: Path) -> Case:
    """A cond with its two graphs."""
    text = """
        p: bool[1]
        x: float32[2, 3]
        t = get_attr(true_0)
        f = get_attr(false_0)
        y: float32[2, 3] = torch.ops.higher_order.cond(p, t, f, (x,))
        return y
    """
    bodies = {
        "true_0": "a: float32[2, 3]\nb = torch.tanh(a)\nreturn b",
        "false_0": "a: float32[2, 3]\nb = torch.sin(a)\nreturn b",
    }
    return case_of(text, bodies=bodies)


def _symbolic(_: Path) -> Case:
    own = replace(meta(4, 3), symbols=("s0", None))
    nodes = graph(
        placeholder("s0", Scalar(4, "s0")),
        placeholder("x", own),
        call("split", "torch.split", Ref("x"), 2, value=Sequence_((meta(2, 3), meta(2, 3)))),
        call("getitem", "operator.getitem", Ref("split"), 0),
        call("add", "operator.add", Ref("getitem"), Ref("s0")),
        output("add"),
    )
    inputs = (ScalarInput("s0", 4, "s0"), TensorInput("x", own, Drawn("randn")))
    return replace(
        small_case(),
        graph=nodes,
        inputs=inputs,
        symbolic=Symbolic.AUTOMATIC,
        symbols=(Symbol("s0", 4, 2, 64, 5),),
        calls=2,
    )


def _transforms(_: Path) -> Case:
    functorch = "torch._C._functorch"
    nodes = graph(
        placeholder("x"),
        call("enter", f"{functorch}._vmap_increment_nesting", 2, "error", value=Scalar(1)),
        call("batched", f"{functorch}._add_batch_dim", Ref("x"), 0, 1, value=meta(3)),
        call("tanh", "torch.tanh", Ref("batched"), value=meta(3)),
        call("out", f"{functorch}._remove_batch_dim", Ref("tanh"), 1, 2, 0),
        call("exit", f"{functorch}._vmap_decrement_nesting", value=Scalar(None)),
        output("out"),
    )
    return replace(small_case(), graph=nodes, inputs=(TensorInput("x", meta(2, 3), Drawn("randn")),))


def _arguments(_: Path) -> Case:
    """Every kind of argument, of option and of state; definitions of the script, and a call ahead."""
    made = SourceExpression("functools.partial(helper, k=1)", ("import functools",), ("helper",))
    nodes = graph(
        placeholder("x"),
        Node("view", "call_method", "view", (Ref("x"), Size((3, 2))), {}, meta(3, 2)),
        call("to", "torch.to", Ref("view"), dtype=Constant("dtype", "float64"), device=Constant("device", "cpu")),
        call("index", "operator.getitem", Ref("to"), (slice(None, Ref("x"), 2), ..., None)),
        call("clamp", "torch.clamp", Ref("index"), float("-inf"), 7.25, {"a": [1, (2,)], 3: {4}}, complex(1, 2)),
        call("own", "__main__:helper", Ref("clamp"), k=made, mode=Imported("enum:Enum"), r=range(1, 9, 2)),
        output("own"),
    )
    ahead = CallAhead(
        graph(placeholder("x"), call("sin", "torch.sin", Ref("x")), output("sin")),
        (TensorInput("x", meta(2, 3), Drawn("ones")),),
        2,
    )
    state = State(
        autocast=(("cpu", "bfloat16"),),
        default_dtype="float64",
        inference=True,
        config=(
            ("torch._dynamo.config", "cache_size_limit", 3),
            ("torch._inductor.config", "post_grad_custom_pre_pass", made),
        ),
        switches=(("deterministic_algorithms", "warn"), ("num_threads", 2), ("float32_matmul_precision", "high")),
        environment=(("TORCHDYNAMO_DISABLE", "0"),),
    )
    case = small_case()
    backend = replace(
        case.backend,
        reach=BackendSource.DEFINED,
        expression="mine",
        names=("mine",),
        mode="default",
        options={"a": (1, 2), "made": made},
        ahead=("from os import path as p",),
        folders=("/somewhere/else",),
    )
    definitions = "def helper(x, k=0):\n    return x\n\n\ndef mine(gm, inputs):\n    return gm.forward\n"
    script = replace(case.script, imports=("import oddops",), ops=("odd::op",), line=3)
    item = TensorInput("x", meta(2, 3), Drawn("list", values=(1.0, 2.0, 3.0, 4.0, 5.0, 6.5)))
    return replace(
        case,
        graph=nodes,
        inputs=(item,),
        backend=backend,
        state=state,
        script=script,
        definitions=definitions,
        ahead=(ahead,),
    )


def _backward(_: Path) -> Case:
    """Wrong gradients under the user's tolerance, with strides, a window of a storage and a call that is no leaf."""
    own = replace(meta(2, 3), requires_grad=True)
    inputs = (
        TensorInput("x", replace(own, stride=(1, 2)), Drawn("randn"), leaf=False),
        TensorInput("w", replace(own, offset=2), Drawn("randint", 0, 9), parameter=True, storage=12),
    )
    nodes = graph(
        placeholder("x", inputs[0].meta),
        placeholder("w", inputs[1].meta),
        call("add", "operator.add", Ref("x"), Ref("w"), value=own),
        call("tanh", "torch.tanh", Ref("add"), value=own),
        output("tanh", "add"),
    )
    failure = Failure(
        Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="gradient", aspects=("gradient", "values")),
        "wrong-result",
        "gradient of x is off",
        differences=(Difference(Aspect.GRADIENT, "gradient of x", "it is off", 0.02, 1e-8, 1e-9),),
    )
    return replace(
        small_case(),
        graph=nodes,
        inputs=inputs,
        failure=failure,
        backward=True,
        measure=Tolerance(0.1, 0.1, (Aspect.STRIDE,)),
        rate=0.75,
    )


def _predicate(_: Path) -> Case:
    fingerprint = Fingerprint(Stage.COMPARE, Kind.WRONG_RESULT, message="predicate")
    predicate = "LIMIT = 1e-2\n\n\ndef differs(compiled, eager):\n    return False\n"
    return replace(
        small_case(), failure=Failure(fingerprint, "wrong-result", "it differs"), measure=Tolerance(predicate=predicate)
    )


def _hang(_: Path) -> Case:
    fingerprint = Fingerprint(Stage.COMPILE, Kind.TIMEOUT, message="no end")
    return replace(small_case(), failure=Failure(fingerprint, "timeout", "no end"), patience=3.0)


def _aten(_: Path) -> Case:
    names = ("tangents_1", "tanh")
    node = call("tanh_backward", "torch.ops.aten.tanh_backward.default", *map(Ref, names))
    inputs = tuple(TensorInput(name, meta(2, 3), Drawn("randn")) for name in names)
    nodes = graph(*map(placeholder, names), node, output("tanh_backward"))
    return replace(small_case(), graph=nodes, inputs=inputs, level=Level.AOT_BACKWARD)


def _adapted(folder: Path) -> Case:
    case = _stored(folder)
    adapted = Adapted(Stored("w"), meta(3, 3))
    return replace(case, inputs=(replace(case.inputs[0], source=adapted), *case.inputs[1:]))


SAMPLES = {
    "small": lambda _: small_case(),
    "stored": _stored,
    "adapted": _adapted,
    "branches": _branches,
    "symbolic": _symbolic,
    "transforms": _transforms,
    "arguments": _arguments,
    "backward": _backward,
    "predicate": _predicate,
    "hang": _hang,
    "aten": _aten,
}


def write_sample(name: str, folder: Path) -> None:
    """Save the sample of this name."""
    folder.mkdir(parents=True, exist_ok=True)
    save(SAMPLES[name](folder), folder)
