"""When two sightings are one failure."""

from dataclasses import replace

import pytest

from minifier.data.failure import Aspect, Failure, Frame, Kind, Stage, Verdict, matches, same
from minifier.data.failure.fingerprint import failure_of, of_exception
from minifier.data.failure.observed import describe


def seen(error, nodes=(), stage=Stage.COMPILE):
    return of_exception(stage, describe(error), dict.fromkeys(nodes, ""))


def raised(work, *args):
    try:
        work(*args)
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def lower(message, kind=RuntimeError):
    raise kind(message)


def schedule(message, kind=RuntimeError):
    raise kind(message)


def message(text, nodes=()):
    return seen(raised(lower, text), nodes)


def test_type_raising_function_stage_and_kind_tell_failures_apart():
    sought = message("lost")
    assert not same(sought, seen(raised(lower, "lost", ValueError)))
    assert not same(sought, seen(raised(schedule, "lost")))
    assert not same(sought, seen(raised(lower, "lost"), stage=Stage.RUN))
    assert not same(sought, replace(sought, kind=Kind.SIGNAL))
    assert not same(sought, replace(sought, site=Frame("acme", "lower")))


def test_op_names_matter_and_names_of_nodes_do_not():
    assert not same(message("no lowering for tanh", ["x"]), message("no lowering for erf", ["x"]))
    assert same(message("no lowering for hidden", ["hidden"]), message("no lowering for l_x_", ["l_x_"]))
    assert not same(message("no lowering for hidden", ["hidden"]), message("no lowering for tanh", ["l_x_"]))
    assert same(message("hidden_3 has no layout", ["hidden_3"]), message("score has no layout", ["score"]))


def test_a_name_is_free_only_where_it_was_a_nodes_name():
    sought = message("hidden has no layout", ["hidden"])
    assert not same(sought, message("hidden has no device", ["hidden"]))
    assert not same(sought, message("hidden has 3", ["hidden"]))


def test_match_replaces_the_comparison_of_messages():
    sought, other = message("cannot fuse tanh after layer_norm"), message("cannot fuse tanh, missing producer")
    raw = Failure(other, "RuntimeError", "error 1234: cannot fuse tanh, missing producer")
    assert matches(sought, raw, "cannot fuse")
    assert matches(sought, raw, "error 1234")  # in the user's own words, not the normalised ones
    assert not matches(sought, raw, "layer_norm")
    assert not matches(sought, replace(raw, fingerprint=replace(other, stage=Stage.RUN)), "cannot fuse")


def test_where_the_graph_was_traced_anew_a_nodes_name_may_be_any():
    sought = message("hidden has no layout", ["hidden"])
    assert not same(sought, message("x has no layout"))
    assert same(sought, message("x has no layout"), renamed={})
    assert not same(sought, message("x has no device"), renamed={})
    assert not same(sought, message("3 has no layout"), renamed={})


def test_a_variable_stands_for_the_node_that_is_named_after_its_op():
    sought = message("hidden has users {sigmoid}", ["hidden"])
    seen = message("a has users {c}")
    assert same(sought, seen, renamed={"a": "hidden", "c": "sigmoid_3"})
    assert not same(sought, seen, renamed={"a": "hidden", "c": "tanh_3"}) and not same(sought, seen, renamed={})


def test_the_site_is_the_backends_own_innermost_frame():
    import json

    found = seen(raised(json.loads, "{"))
    assert found.raising is not None and found.raising.module == "json.decoder"
    assert found.site == Frame(__name__, "raised")


@pytest.mark.parametrize("wrapped", [True, False])
def test_dynamos_wrapper_changes_nothing(wrapped):
    from torch._dynamo.exc import BackendCompilerFailed

    inner = raised(lower, "no lowering for tanh")
    outer = BackendCompilerFailed(lower, inner, None).with_traceback(inner.__traceback__)
    found = failure_of(Stage.COMPILE, describe(outer if wrapped else inner), "")
    assert (found.type, found.message) == ("RuntimeError", "no lowering for tanh")
    assert same(message("no lowering for tanh"), found.fingerprint)


@pytest.mark.parametrize("kind", [MemoryError, RecursionError])
def test_functions_of_aotautograd_around_a_compiler_do_not_tell_endless_failures_apart(kind):
    """When autograd calls a compiled backward it goes through others than when a probe does."""

    def passed_on_by(function):
        error = raised(lower, "no end", kind)
        (link,) = describe(error)
        around = ["torch._functorch._aot_autograd.utils", function, "utils.py", 1]
        inside = ["acme.compiler", "run", "compiler.py", 1]
        return of_exception(Stage.BACKWARD_RUN, [{**link, "frames": [around, inside]}])

    assert same(passed_on_by("call_func_at_runtime_with_args"), passed_on_by("g"))
    assert passed_on_by("g").site == Frame("acme.compiler", "run")


@pytest.mark.parametrize("made", ["cts4xbpmhn7btcgupzzgs2kvf5lkoai7x2e6gzm6tbc7f55wwzg7", "c" + "a2" * 25])
def test_a_module_that_inductor_made_is_like_any_other_of_its(made):
    frames = [["torch._inductor.runtime.compile_tasks." + made, "call", f"/tmp/{made}.py", 3]]
    found = of_exception(Stage.RUN, [{"type": "AssertionError", "bases": [], "message": "no", "frames": frames}])
    assert found.raising is not None and found.raising.module == "torch._inductor.runtime.compile_tasks"


def test_a_message_that_varies_is_told_by_its_function_and_half_of_its_words():
    sought = replace(message("no kernel for tanh in session amber"), any_message=True)
    assert same(sought, message("no kernel for tanh in session birch"))
    assert not same(replace(sought, any_message=False), message("no kernel for tanh in session birch"))
    assert not same(sought, message("out of memory"))
    assert not same(sought, seen(raised(schedule, "no kernel for tanh in session birch")))
    assert not same(sought, seen(raised(lower, "no kernel for tanh in session birch", ValueError)))


def wrapped(cause, depth=1, kind=RuntimeError):
    try:
        wrapped(cause, depth - 1) if depth > 1 else lower(cause, kind)
    except kind as error:
        raise RuntimeError("compilation failed") from error


def kernel(name):
    """Return a function of a generated module."""
    space = {"__name__": f"kernel_{name}"}
    code = f"def launch_{name}():\n    raise ValueError('bad launch')"
    exec(compile(code, f"/cache/kernel_{name}.py", "exec"), space)
    return space[f"launch_{name}"]


def recursion(depth):
    return recursion(depth + 1)


ALIKE = {
    "a wrapper a level": (lambda: wrapped("no table", 1), lambda: wrapped("no table", 7)),
    "generated modules": (kernel("0fdbcddcd7"), kernel("99ab12cd34ef")),
    "numbered functions": (kernel("12"), kernel("7")),
    "the depth of a recursion": (lambda: recursion(0), lambda: (lambda: recursion(0))()),
}


@pytest.mark.parametrize("pair", ALIKE)
def test_one_failure_is_recognised(pair):
    one, other = (seen(raised(work)) for work in ALIKE[pair])
    assert same(one, other)


def test_a_node_may_be_called_after_its_op_or_by_a_name_of_its_own():
    """Dynamo names a node after the variable that it is assigned to, if there is one."""

    def said(name, nodes):
        links = [{"type": "ValueError", "bases": [], "message": f"cannot lower node {name!r}", "frames": []}]
        return of_exception(Stage.COMPILE, links, nodes)

    nodes = {"hidden_states": "dropout", "hidden_states_4": "gelu"}
    by_op, by_name = said("gelu", nodes), said("hidden_states_4", nodes)
    assert same(by_op, by_name) and same(by_name, by_op)
    for other in (said("hidden_states", nodes), said("layout", nodes)):
        assert not same(by_op, other) and not same(other, by_op)


# Names of stages, kinds, verdicts and aspects, as they stand in Cases, journals and command lines that are kept.


def test_names_that_are_kept_in_files_do_not_change():
    assert [each.value for each in Stage] == [
        "capture", "compile", "run", "backward-compile", "backward-run", "compare",
    ]  # fmt: skip
    assert [each.value for each in Kind] == [
        "exception", "signal", "exit", "timeout", "out-of-memory", "wrong-result", "non-finite", "silent-fallback",
    ]  # fmt: skip
    assert [each.value for each in Verdict] == ["SAME", "OTHER", "PASS", "INVALID", "UNRESOLVED"]
    assert {each.value for each in Aspect} == {
        "values", "non-finite", "shape", "dtype", "stride", "device", "aliasing", "mutation", "overwritten",
        "gradient", "autograd", "no-exception", "structure", "predicate",
    }  # fmt: skip
