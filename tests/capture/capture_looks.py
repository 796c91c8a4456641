"""A script looked at as `minify run` does: once, and again to compare."""

import faulthandler
import io
import os
import sys

from vocabulary import CASES, Lines, in_child, source_of

from minifier.capturing.find_failures import run_script
from minifier.capturing.script import Program
from minifier.capturing.standard_input import StandardInput
from minifier.capturing.terms import Terms
from minifier.process.phase_clock import PhaseClock
from minifier.settings import Settings
from minifier.workflow.attempt import Run
from minifier.workflow.fallbacks import Step, fall_back
from minifier.workflow.no_failure import nothing_failed


def looked(bureau, text, limit=None, given=None, **settings):
    """What two runs of the script showed, and what is said of it."""
    script = bureau.folder / "failing.py"
    script.write_text(source_of(text))

    def work():
        faulthandler.disable()
        sys.path[0] = str(CASES)
        os.chdir(bureau.folder)
        standard_input = None
        if given is not None:
            reading, writing = os.pipe()
            os.write(writing, given)
            os.close(writing)
            os.dup2(reading, 0)
            sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
            standard_input = StandardInput(bureau.folder / "copy")
        program, ui = Program(str(script), given=standard_input), Lines()
        found = run_script(program, bureau.folder / "work", Terms(limit), ui)
        found = fall_back(found, Step.CAPTURE, Run(Settings(**settings), PhaseClock(ui)))
        said = "" if found.captured.failing else str(nothing_failed(program, found.captured, found.compared))
        return found, said, ui.lines

    return in_child(work, bureau.folder, 140)
