"""Which frames of an exception are the backend's, and what a failure keeps of them."""

import contextlib
from dataclasses import replace

import pytest

from minifier.capturing import observer
from minifier.data.failure import Fingerprint, Frame, Kind, Stage, same
from minifier.data.failure.fingerprint import failure_of, of_exception, was_wrapped, without_wrappers
from minifier.data.failure.observed import describe
from minifier.reduction.probe import evaluate

WRAPPER = "torch._dynamo.exc.BackendCompilerFailed"


def link(*frames, kind="ValueError", message="no", bases=("Exception",)):
    """One exception; a frame is a module, or a module and a function, or those and a file."""
    parts = [(*each, "lower", "acme.py")[:3] if len(each) == 1 else (*each, "acme.py")[:3] for each in frames]
    return {"type": kind, "bases": list(bases), "message": message, "frames": [[*part, 1] for part in parts]}


def seen(*links):
    return of_exception(Stage.COMPILE, links)


@pytest.mark.parametrize(
    ("module", "is_own"),
    [
        ("acme.lower", True),
        ("torch._inductor.graph", True),
        ("torch._dynamo.backends.common", True),
        ("torch.fx.graph", False),
        ("torch._dynamo.symbolic_convert", False),
        ("torchvision.ops", True),
        ("__main__", False),
        ("", False),
    ],
)
def test_whose_frame_it_is(module, is_own):
    assert seen(link((module,))).site == (Frame(module, "lower") if is_own else None)
    assert seen(link((module,))).raising == Frame(module, "lower")


@pytest.mark.parametrize(
    "module", ["minifier.reduction.probe.run", "torch._dynamo.output_graph", "torch._dynamo.eval_frame"]
)
def test_those_who_call_a_backend_are_not_there(module):
    assert seen(link((module,))).raising is None
    assert seen(link(("acme",), (module,))).raising == Frame("acme", "lower")


def test_the_script_that_leads_to_generated_code_raises_nothing():
    """`gm.forward` as the compiled function: a fresh interpreter shows the script's frames, a probe only its own."""
    dynamo, generated = ("torch._dynamo.eval_frame", "_fn"), ("made", "forward", "<eval_with_key>.1")
    assert seen(link(("__main__", "<module>"), dynamo, ("__main__", "fn"), dynamo, generated)).raising is None
    assert seen(link(("__main__", "<module>"), dynamo, ("acme", "run"), dynamo, generated)).raising == Frame(
        "acme", "run"
    )


@pytest.mark.parametrize(
    ("file", "counts"), [("<eval_with_key>.3", False), ("<ipython-input-7>", True), ("<string>", False), ("a.py", True)]
)
def test_generated_code_counts_for_nothing_and_a_notebooks_cell_for_code(file, counts):
    found = seen(link(("acme", "outer"), ("made", "inner", file)))
    assert found.raising == (Frame("made", "inner") if counts else Frame("acme", "outer"))


def test_frames_are_those_of_the_innermost_exception_that_has_any():
    inner, outer, bare = link(("acme", "inner")), link(("acme", "outer"), kind="KeyError"), link(message="bare")
    assert seen(outer, inner, bare).raising == Frame("acme", "inner")
    assert seen(inner, outer, bare).raising == Frame("acme", "outer")
    assert seen(bare).raising is None


def test_dynamos_wrapper_is_taken_off_unless_it_is_all():
    wrapper, inductors = link(kind=WRAPPER), link(kind="InductorError", bases=(WRAPPER,))
    inner = link(kind="KeyError")
    assert without_wrappers([wrapper, inductors, inner]) == [inner] and without_wrappers([wrapper]) == [wrapper]
    assert was_wrapped([wrapper, inner]) and was_wrapped([inductors]) and not was_wrapped([inner])
    assert seen(wrapper).types == (WRAPPER,)


@pytest.mark.parametrize(
    ("code", "status"),
    [(None, 0), (3, 3), (259, 3), (-1, 255), ("fatal: 3", 1), ("", 1), (255, 255), (256, 0), ("3", 1), (False, 0)],
)
def test_what_an_exit_makes_of_a_process(code, status):
    class Quits(SystemExit):
        pass

    ended = Fingerprint(Stage.COMPILE, Kind.EXIT, message=f"exit status {status}")
    assert seen(*describe(SystemExit(code))) == seen(*describe(Quits(code))) == ended
    assert seen(*describe(SystemExit(code)), link(message="handled meanwhile")) == ended
    assert seen(link(message="replaces the exit"), *describe(SystemExit(code))).kind is Kind.EXCEPTION


def test_links_in_a_row_that_say_the_same_are_one():
    one, other = link(message="no table"), link(message="no range")
    assert seen(one, one, other, other, one).message == "no table\nno range\nno table"
    assert seen(one, one, other).types == ("ValueError", "ValueError")
    assert seen(one, link(kind="KeyError", message="no table")).types == ("ValueError", "KeyError")


@pytest.mark.parametrize(
    ("links", "kind"),
    [
        ([link(kind="MemoryError")], Kind.OUT_OF_MEMORY),
        ([link(kind="Arena", bases=("MemoryError",))], Kind.OUT_OF_MEMORY),
        ([link(kind="torch.cuda.OutOfMemoryError")], Kind.OUT_OF_MEMORY),
        ([link(kind="acme.OutOfMemoryError")], Kind.EXCEPTION),
        ([link(kind="acme.Error", bases=("RuntimeError",), message="std::bad_alloc")], Kind.OUT_OF_MEMORY),
        ([link(kind="RuntimeError", message="DefaultCPUAllocator: can't allocate memory")], Kind.OUT_OF_MEMORY),
        ([link(kind="MemoryError"), link()], Kind.OUT_OF_MEMORY),
        ([link(), link(kind="MemoryError")], Kind.OUT_OF_MEMORY),
        ([link(), link(kind="MemoryError"), link()], Kind.EXCEPTION),
    ],
)
def test_memory_is_out_where_the_first_or_the_last_link_says_so(links, kind):
    assert seen(*links).kind is kind


def test_who_asked_for_too_much_memory_is_known_by_the_outermost_exception():
    outer = link(("json.decoder", "decode"), ("acme", "outer"), ("acme", "allocate"), kind="MemoryError")
    found = seen(outer, link(("acme", "elsewhere")))
    assert found == Fingerprint(
        Stage.COMPILE, Kind.OUT_OF_MEMORY, site=Frame("acme", "outer"), message="no more memory"
    )


OWN = '  File "{file}", line 3, in call\n    compiled(x)\n    ^^^^^^^^\n'
REST = 'Traceback (most recent call last):\n  File "/home/me/acme.py", line 7, in lower\n    f()\nKeyError: no\n'


@pytest.mark.parametrize(
    ("file", "is_own"),
    [(evaluate.__file__, True), (observer.__file__, True), ("/home/me/minifier/probe/run.py", False)],
)
def test_frames_of_this_tool_are_left_out_of_the_traceback(file, is_own):
    own = OWN.format(file=file)
    head, _, tail = REST.partition("\n")
    failure = failure_of(Stage.RUN, [link(kind=WRAPPER), link(kind="KeyError")], f"{head}\n{own}{tail}")
    assert failure.traceback == (REST if is_own else f"{head}\n{own}{tail}")
    assert (failure.type, failure.message) == ("KeyError", "no")
    assert failure.fingerprint == of_exception(Stage.RUN, [link(kind="KeyError")])


TRACED = """Data-dependent branching

from user code:
   File "/home/me/model.py", line 28, in forward
    spread = self.reset()
  File "<string>", line 2, in made
  File "{}", line 101, in drawn
    if mean < low:
       ^^^^^^^^^^

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/opt/lib/python3.11/site-packages/torch/nn/init.py", "torch/nn/init.py"),
        ("/usr/lib/python3/dist-packages/acme/ops.py", "acme/ops.py"),
        (contextlib.__file__, "contextlib.py"),
        ("/home/me/layers.py", ""),
        ("definitions.py", ""),
    ],
)
def test_the_line_of_a_package_that_dynamo_traced_is_kept_and_the_scripts_own_is_not(file, path):
    traced = seen(link(("torch._dynamo.symbolic_convert",), message=TRACED.format(file))).traced
    assert traced == (f"{path}, drawn: if mean < low:" if path else "")


def test_other_lines_are_other_failures_only_where_that_is_asked_for():
    messages = (TRACED.format("/lib/site-packages/acme/ops.py"), TRACED.format("definitions.py"))
    acme, script = (seen(link(("torch._dynamo.symbolic_convert",), message=message)) for message in messages)
    assert acme.message == script.message and same(acme, script)
    assert not same(replace(acme, at_traced=True), script) and not same(replace(script, at_traced=True), acme)
    assert same(replace(acme, at_traced=True), acme)


UNSUPPORTED = """Attempted to call function marked as skipped
  Explanation: Dynamo does not know how to trace the builtin `{module}.{name}.` This function is a Python builtin.
  Hint: If it is a Python builtin, please file an issue
  Hint: If it is a third-party extension, please wrap it
  Hint: Or use `torch.compiler.allow_in_graph`.

  Developer debug context: module: {module}, qualname: {name}, skip reason: <missing reason>

 For more details about this graph break, please visit: https://example.org/gb0007.html

from user code:
   File "definitions.py", line 9, in f
    return x, {module}.{name}(0)
"""
PRINTED = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace `print` with argument types {types} (has_kwargs {kwargs})
  Hint: Avoid calling builtin `print` with argument types {types}.
  Hint: Use a function that can be reordered
  Hint: Or leave it out

  Developer debug context: builtin print [{variables}] {kwargs}

 For more details about this graph break, please visit: https://example.org/gb0059.html
"""


def broken(message):
    return replace(seen(link(("torch._dynamo.symbolic_convert",), message=message)), at_traced=True)


def test_what_dynamo_does_not_support_is_told_from_its_explanation():
    """A long message is cut to two lines, which both have in common."""
    sleep, draw = (UNSUPPORTED.format(module=m, name=n) for m, n in (("time", "sleep"), ("posix", "urandom")))
    assert broken(sleep).message == broken(draw).message and not same(broken(sleep), broken(draw))
    assert same(broken(sleep), broken(sleep)) and same(replace(broken(sleep), at_traced=False), broken(draw))


def test_the_arguments_of_what_dynamo_does_not_support_may_change():
    one = PRINTED.format(types="['str', 'int']", variables="<class 'A'>, <class 'A'>", kwargs=True)
    other = PRINTED.format(types="[]", variables="", kwargs=False)
    assert broken(one).graph_break == broken(other).graph_break != "" and same(broken(one), broken(other))
    assert broken("no graph break").graph_break == ""
