"""Exceptions that go from one process to another."""

import errno

import pytest

from minifier.errors import LimitReached, MachineFailed, MinifyError, NoRepro, ToolFailed
from minifier.process.forked_step import MAX_BYTES, deserialised, serialised


class Elsewhere(MinifyError):
    """Is defined outside minifier.errors."""

    class Inner(NoRepro):
        """Is defined in a class."""


@pytest.mark.parametrize("kind", [NoRepro, Elsewhere, Elsewhere.Inner])
def test_an_error_of_the_tool_keeps_its_class_and_message(kind):
    error = deserialised(serialised(kind("a message\nof two lines, \udc80")))
    assert type(error) is kind and str(error) == "a message\nof two lines, \\udc80"


def test_an_error_of_the_machine_becomes_one():
    full = deserialised(serialised(OSError(errno.ENOSPC, "No space left on device", "/a/file")))
    assert type(full) is MachineFailed and "No space left on device: '/a/file'" in str(full)
    assert type(deserialised(serialised(MemoryError()))) is LimitReached


def test_any_other_is_the_tools_own_and_has_its_traceback():
    try:
        {}["key"]
    except KeyError as error:
        passed = deserialised(serialised(error))
    assert type(passed) is ToolFailed and "KeyError: 'key'" in str(passed) and '{}["key"]' in str(passed)


def test_the_longest_message_fits():
    assert len(serialised(NoRepro("\U0001f525" * (1 << 20)))) <= MAX_BYTES
