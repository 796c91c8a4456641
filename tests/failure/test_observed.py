"""An exception as plain data."""

import builtins
import json
import sys
import textwrap
import traceback
from pathlib import Path

import pytest

from minifier.data.failure.observed import describe, report_at_exit, text


def caught(work):
    try:
        work()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def chain(work):
    return [(link["type"], link["message"]) for link in describe(caught(work))]


def test_one_link_has_type_message_bases_and_frames():
    def lower():
        raise FileNotFoundError("no table")

    (link,) = describe(caught(lower))
    assert (link["type"], link["message"]) == ("FileNotFoundError", "no table")
    assert link["bases"] == ["OSError", "Exception", "BaseException"]
    assert [frame[:2] for frame in link["frames"]] == [[__name__, "caught"], [__name__, "lower"]]
    assert all(frame[2] == __file__ and isinstance(frame[3], int) for frame in link["frames"])


def looked_up(how):
    try:
        {}["table"]
    except KeyError as error:
        if how == "implicit":
            raise RuntimeError("no table")  # noqa: B904 - the missing `from` is the point
        raise RuntimeError("no table") from (error if how == "explicit" else None)


@pytest.mark.parametrize("how", ["explicit", "implicit", "hidden"])
def test_a_cause_is_followed_unless_it_is_hidden(how):
    inner = [] if how == "hidden" else [("KeyError", "'table'")]
    assert chain(lambda: looked_up(how)) == [("RuntimeError", "no table"), *inner]


def test_a_context_outside_the_call_is_not():
    def backend():
        raise RuntimeError("no lowering")

    def script():
        try:
            raise ValueError("something the script was busy with")
        except ValueError:
            return caught(backend)

    assert [link["type"] for link in describe(script())] == ["RuntimeError"]


def test_a_ring_of_causes_ends():
    def work():
        one, two = RuntimeError("one"), RuntimeError("two")
        one.__cause__, two.__cause__ = two, one
        raise one

    assert chain(work) == [("RuntimeError", "one"), ("RuntimeError", "two")]
    assert text(caught(work)).endswith("RuntimeError: one\n")


def test_a_faulty_str_is_told_not_raised():
    class Broken(Exception):
        def __str__(self):
            raise ValueError("no text")

    def work():
        raise Broken

    ((kind, message),) = chain(work)
    assert kind.endswith("Broken") and message == "<Broken whose __str__ raises ValueError>"


@pytest.mark.parametrize(
    ("said", "told"),
    [("no \ud800", "no \\ud800"), ("no \0", "no \\x00"), ("é ü", "é ü")],
    ids=["surrogate", "null", "accents"],
)
def test_what_no_file_takes_is_escaped(said, told):
    def work():
        raise RuntimeError(said)

    ((_, message),) = chain(work)
    assert ascii(message) == ascii(told)
    assert json.loads(json.dumps(describe(caught(work))))[0]["message"].encode() == told.encode()
    assert text(caught(work)).encode("utf-8")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups are new in Python 3.11")
def test_members_of_a_group_follow_it():
    def work():
        raise builtins.ExceptionGroup("two", [KeyError("tanh"), ValueError("erf")])

    assert chain(work) == [("ExceptionGroup", "two (2 sub-exceptions)"), ("KeyError", "'tanh'"), ("ValueError", "erf")]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups are new in Python 3.11")
def test_a_member_of_a_group_that_is_raised_again_is_described_once():
    def work():
        try:
            raise builtins.ExceptionGroup("two", [KeyError("tanh"), ValueError("erf")])
        except builtins.ExceptionGroup as group:
            raise group.exceptions[0]  # noqa: B904 - as asyncio.timeout and anyio do

    assert [kind for kind, _ in chain(work)] == ["KeyError", "ExceptionGroup", "ValueError"]
    assert "KeyError: 'tanh'" in text(caught(work))


class RaisingProperty(Exception):
    @property
    def exceptions(self):
        raise RuntimeError("not yet")

    inner_exception = exceptions


class WithoutMembers(Exception):
    exceptions = None


class WithItself(Exception):
    @property
    def exceptions(self):
        return (self,)


@pytest.mark.parametrize("kind", [RaisingProperty, WithoutMembers, WithItself])
def test_attributes_of_the_users_exceptions_are_only_read_as_a_groups_if_they_are_like_a_groups(kind):
    def work():
        raise kind("no lowering")

    assert [message for _, message in chain(work)] == ["no lowering"] and "no lowering" in text(caught(work))


def test_a_chain_that_is_longer_than_the_stack_has_a_text():
    def work():
        error = ValueError("0")
        for number in range(1, 1500):
            error, error.__cause__ = ValueError(str(number)), error
        raise error

    assert len(chain(work)) == 1500 and text(caught(work)).endswith("ValueError: 1499\n")


def test_a_message_of_200_000_characters_is_kept_and_a_longer_one_cut_in_the_middle():
    def message(count):
        def work():
            raise RuntimeError("a" * (count // 2) + "b" * (count - count // 2))

        return chain(work)[0][1]

    assert len(message(200_000)) == 200_000
    assert message(200_003) == "a" * 100_000 + "\n[3 characters left out]\n" + "b" * 100_000


def test_a_frame_of_no_module_has_an_empty_name():
    space = {}
    exec("def work(): raise KeyError", space)
    space.pop("__name__", None)
    assert describe(caught(space["work"]))[0]["frames"][-1][:2] == ["", "work"]


def framed_by_the_tool(kind):
    """Raises in a function that stands in a file of this tool, and is called by one."""
    import minifier

    space = {"kind": kind}
    code = "def raises():\n    raise kind('inner')\ndef calls():\n    raises()\n"
    exec(compile(code, str(Path(minifier.__file__).parent / "probe" / "made.py"), "exec"), space)
    return space["calls"]


def test_frames_of_this_tool_are_left_out_of_the_text_and_of_its_causes():
    def work():
        try:
            framed_by_the_tool(KeyError)()
        except KeyError as error:
            raise RuntimeError("outer") from error

    error = caught(work)
    assert "made.py" in "".join(traceback.format_exception(error))
    assert "made.py" not in text(error) and f'File "{__file__}"' in text(error)
    assert text(error).count("Traceback") == 2


def test_an_exception_that_ends_the_interpreter_is_reported_once():
    reports = []
    error = caught(lambda: {}["table"])
    report_at_exit(lambda links, said: reports.append((links, said)))
    sys.audit("sys.excepthook", None, KeyError, None, None)
    sys.audit("another.event", None, KeyError, error, None)
    assert reports == []
    sys.audit("sys.excepthook", None, KeyError, error, None)
    assert reports == [(describe(error), text(error))]


def test_an_exception_that_cannot_be_reported_is_still_pythons_to_print(capsys):
    class Unwritable(Exception):
        pass

    def write(links, said):
        if links[0]["type"].endswith("Unwritable"):
            raise RuntimeError("no room")  # of all exceptions, a RuntimeError in a hook makes Python print nothing

    report_at_exit(write)
    sys.audit("sys.excepthook", None, Unwritable, Unwritable(), None)
    assert "no room" in capsys.readouterr().err


@pytest.mark.timeout(90)
@pytest.mark.parametrize(
    "raises",
    [
        "raise Odd('no lowering')",
        """
        try:
            raise ExceptionGroup('two', [KeyError('tanh')])
        except ExceptionGroup as group:
            raise group.exceptions[0]
        """,
    ],
    ids=["property", "group"],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups are new in Python 3.11")
def test_the_script_sees_its_own_exception_whatever_it_is_and_the_failure_is_known(bureau, raises):
    body = textwrap.indent(textwrap.dedent(raises).strip(), "    ")
    captured = bureau.capture(
        "import torch\n\nclass Odd(Exception):\n    @property\n"
        "    def __notes__(self):\n        raise ZeroDivisionError\n\n"
        f"def backend(gm, inputs):\n{body}\n\n"
        "try:\n    torch.compile(torch.sin, backend=backend)(torch.ones(2))\n"
        "except Exception as error:\n    raise SystemExit(7 if 'BackendCompilerFailed' in repr(type(error)) else 1)\n"
    )
    assert captured.end.status == 7 and len(captured.failing) == 1
    assert captured.failing[0].unsaved if "Odd" in raises else captured.failing[0].failure.type == "KeyError"
