"""Holds a reduction up where a test wants to find it."""

import json
import os
import signal


def hold():
    """Stop for ever once a file has a text so many times, unless the test has released its command.

    ODDLIB_HELD, of `vocabulary.Held`, is the file, the text, how often, and the file that releases the command.
    """
    if "ODDLIB_HELD" not in os.environ:
        return
    path, text, times, released = json.loads(os.environ["ODDLIB_HELD"])
    if os.path.exists(path) and not os.path.exists(released):
        with open(path) as file:
            is_held = file.read().count(text) >= times
        while is_held:
            signal.pause()
