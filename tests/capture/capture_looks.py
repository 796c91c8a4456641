"""A script looked at as `minify run` does: once, and again to compare."""

import faulthandler
import io
import os
import sys
import tempfile

from vocabulary import CASES, Lines, in_child, let_hangs_last, source_of

from minifier.capturing.script import Program
from minifier.data.settings import Settings
from minifier.flow.attempt import Run
from minifier.flow.keep_case import look_further, run_observed
from minifier.flow.no_failure import nothing_failed
from minifier.process.descendants import orphans_adopted
from minifier.process.progress import PhaseClock


def looked(bureau, text, limit=None, given=None, **settings):
    """What two runs of the script showed, and what is said of it."""
    script = bureau.folder / "failing.py"
    script.write_text(source_of(text))

    def work():
        faulthandler.disable()
        sys.path[0] = str(CASES)
        let_hangs_last(bureau.folder)
        os.chdir(bureau.folder)
        tempfile.tempdir = str(bureau.folder)
        if given is not None:
            reading, writing = os.pipe()
            os.write(writing, given)
            os.close(writing)
            os.dup2(reading, 0)
            sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
        program, ui = Program(str(script)), Lines()
        run = Run(Settings(timeout=limit, **settings), PhaseClock(ui))
        with orphans_adopted():
            found = look_further(run_observed(program, run), run)
        said = "" if found.captured.failing else str(nothing_failed(program, found.captured, found.compared))
        return found, said, ui.lines

    return in_child(work, bureau.folder, 140)
