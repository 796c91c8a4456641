"""When two sightings are one failure."""

import sys
from dataclasses import replace

import pytest
import torch

from minifier.case.decode import unpack
from minifier.case.encode import pack
from minifier.failure import Failure, Fingerprint, Frame, Kind, Stage, matches, same
from minifier.failure.fingerprint import failure_of, of_exception
from minifier.failure.observed import describe


def seen(error, nodes=(), stage=Stage.COMPILE):
    return of_exception(stage, describe(error), nodes)


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


def test_the_same_error_raised_twice_is_the_same():
    assert same(message("cannot place 3 ops"), message("cannot place 7 ops"))


def test_type_raising_function_stage_and_kind_tell_failures_apart():
    sought = message("lost")
    assert not same(sought, seen(raised(lower, "lost", ValueError)))
    assert not same(sought, seen(raised(schedule, "lost")))
    assert not same(sought, seen(raised(lower, "lost"), stage=Stage.RUN))
    assert not same(sought, replace(sought, kind=Kind.SIGNAL))
    assert not same(sought, replace(sought, site=Frame("acme", "lower")))


def test_a_subclass_is_another_type():
    class Narrow(RuntimeError):
        pass

    assert not same(message("lost"), seen(raised(lower, "lost", Narrow)))


def test_op_names_matter_and_names_of_nodes_do_not():
    assert not same(message("no lowering for tanh", ["x"]), message("no lowering for erf", ["x"]))
    assert same(message("no lowering for hidden", ["hidden"]), message("no lowering for l_x_", ["l_x_"]))
    assert not same(message("no lowering for hidden", ["hidden"]), message("no lowering for tanh", ["l_x_"]))
    assert same(message("hidden_3 has no layout", ["hidden_3"]), message("score has no layout", ["score"]))


def test_a_name_is_free_only_where_it_was_a_nodes_name():
    sought = message("hidden has no layout", ["hidden"])
    assert not same(sought, message("hidden has no device", ["hidden"]))
    assert not same(sought, message("hidden has 3", ["hidden"]))


def test_nearly_equal_texts_are_two_failures():
    one = message("fusion.cc:120: cannot fuse tanh: unsupported producer layer_norm")
    two = message("fusion.cc:188: cannot fuse tanh: missing producer")
    assert not same(one, two)
    assert same(one, message("fusion.cc:5: cannot fuse tanh: unsupported producer layer_norm"))


def sighting(fingerprint):
    return Failure(fingerprint, "RuntimeError", fingerprint.message)


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


def test_an_exit_is_known_by_its_status_alone():
    found = seen(raised(sys.exit, 259))
    assert (found.kind, found.message, found.types) == (Kind.EXIT, "exit status 3", ())


def test_a_recursion_without_end_is_known_by_where_it_began():
    def deeper(depth):
        return deeper(depth + 1)

    found = seen(raised(deeper, 0))
    assert found.types == ("RecursionError",) and found.raising is None and found.message == ""


def test_digits_inside_a_word_tell_types_apart_and_generated_names_do_not():
    assert not same(message("no kernel for int8"), message("no kernel for int16"))
    assert same(message("buf12 has no layout"), message("buf3 has no layout"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (MemoryError, "arena exhausted"),
        (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (RuntimeError, "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory"),
        (RuntimeError, "[enforce fail] data. DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes"),
        (RuntimeError, "std::bad_alloc"),
    ],
)
def test_out_of_memory_is_a_kind_of_its_own_whoever_says_so(kind, message):
    found = seen(raised(lower, message, kind))
    assert found.kind is Kind.OUT_OF_MEMORY
    assert same(found, seen(raised(lower, "another allocation was refused", MemoryError)))
    assert not same(found, seen(raised(lower, message, ValueError)))


def test_a_runtime_error_that_speaks_of_memory_is_none():
    assert seen(raised(lower, "memory format channels_last is not supported", RuntimeError)).kind is Kind.EXCEPTION


def test_the_chain_of_causes_is_part_of_the_identity():
    def chained(cause):
        try:
            lower("inner", cause)
        except cause as error:
            raise RuntimeError("outer") from error

    one, two = seen(raised(chained, KeyError)), seen(raised(chained, ValueError))
    assert one.types == ("RuntimeError", "KeyError")
    assert not same(one, two)
    assert one.raising is not None and one.raising.function == "lower"


def test_generated_code_is_not_the_raising_frame():
    scope = {"lower": lower, "__name__": "made"}
    exec(compile("def forward():\n    raise RuntimeError('bad')", "<eval_with_key>.3", "exec"), scope)
    found = seen(raised(scope["forward"]))
    assert found.raising is not None and found.raising.function == "raised"


def test_the_site_is_the_backends_own_innermost_frame():
    import json

    found = seen(raised(json.loads, "{"))
    assert found.raising is not None and found.raising.module == "json.decoder"
    assert found.site == Frame(__name__, "raised")


def test_the_script_itself_is_no_site():
    scope = {"__name__": "__main__"}
    exec(compile("def call(work, *args):\n    return work(*args)", "failing.py", "exec"), scope)
    found = seen(raised(scope["call"], int, "no number"))
    assert found.raising == Frame("__main__", "call") and found.site == Frame(__name__, "raised")


@pytest.mark.parametrize("wrapped", [True, False])
def test_dynamos_wrapper_changes_nothing(wrapped):
    from torch._dynamo.exc import BackendCompilerFailed

    inner = raised(lower, "no lowering for tanh")
    outer = BackendCompilerFailed(lower, inner, None).with_traceback(inner.__traceback__)
    found = failure_of(Stage.COMPILE, describe(outer if wrapped else inner), "")
    assert (found.type, found.message) == ("RuntimeError", "no lowering for tanh")
    assert same(message("no lowering for tanh"), found.fingerprint)


def test_inductors_wrapper_is_one_of_dynamos():
    from torch._inductor.exc import InductorError

    inner = raised(lower, "no lowering for tanh", NotImplementedError)
    outer = InductorError(inner, None).with_traceback(inner.__traceback__)
    assert seen(outer).types == ("NotImplementedError",)


def test_a_fingerprint_survives_json():
    found = Failure(
        message("hidden has no layout", ["hidden"]), "RuntimeError", "hidden has no layout", "trace", (("a", "b"),)
    )
    assert unpack(Failure, pack(found)) == found
    signal = Fingerprint(Stage.RUN, Kind.SIGNAL, message="SIGSEGV")
    assert unpack(Fingerprint, pack(signal)) == signal


def test_a_sentence_names_type_place_stage_and_message():
    assert (
        message("no lowering for tanh").sentence()
        == f"RuntimeError in {__name__}.lower (compile): no lowering for tanh"
    )


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


def test_memory_that_runs_out_again_while_the_first_refusal_is_handled():
    def link(kind, *frames):
        return {"type": kind, "bases": ["Exception"], "message": "", "frames": [[*f, "/a/file.py", 1] for f in frames]}

    first = link("MemoryError", ("torch._dynamo.output_graph", "call_user_compiler"), ("lib.backend", "compile_it"))
    again = link("MemoryError", ("torch._dynamo.utils", "dynamo_timed"), ("json.encoder", "encode"))
    assert of_exception(Stage.COMPILE, [again, first]) == of_exception(Stage.COMPILE, [first])
    assert of_exception(Stage.COMPILE, [first]).site.function == "compile_it"
