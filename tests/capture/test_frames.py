"""The traceback of the user's script has no frames of this tool."""

from pathlib import Path

import pytest

from minifier.capturing.script import _without_tool
from minifier.case.store import load
from minifier.errors import MinifyError


def test_frames_of_the_tool_go_and_the_users_stay():
    with pytest.raises(MinifyError) as caught:
        load(Path("nowhere"))
    trace = caught.value.__traceback__
    assert trace.tb_next is not None
    kept = _without_tool(trace)
    assert kept is trace and kept.tb_next is None


def test_an_exception_that_the_tool_alone_raised_and_caught_has_no_frames():
    with pytest.raises(MinifyError) as caught:
        load(Path("nowhere"))
    assert _without_tool(caught.value.__traceback__.tb_next) is None
