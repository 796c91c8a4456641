"""What watches a script in a fresh interpreter. Standard library only.

A copy of this file is put on that interpreter's path as `sitecustomize`, where Python itself looks for it. It
notes the exception that ends the interpreter and, if it finds a file `watch-logs` beside it, what is logged and
warned. It takes itself off the path and lets the user's own sitecustomize, if there is one, take its turn. If it finds
a file `waits`, it imports torch and waits until there is a script to run.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any

here = os.path.dirname(os.path.abspath(__file__))


has_failed = False


def leave_the_path() -> None:
    """The script is not to see where this file lies."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    paths = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e and e != here]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)


def note_exception() -> None:
    """From now on an exception that ends the interpreter is written to seen.json."""
    spec = importlib.util.spec_from_file_location("_observed", os.path.join(here, "observed.py"))
    assert spec is not None and spec.loader is not None
    observed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(observed)

    # The script may have opened so many files that there are no numbers left: this makes room for one. Numbers are
    # given out from the lowest, so this one is not among those that the script gets.
    low, reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 250
    with contextlib.suppress(OSError):  # there are fewer numbers than that
        os.dup2(low, reserve, inheritable=False)
    os.close(low)

    def write(links: list[Any], text: str) -> None:
        global has_failed
        has_failed = True
        with contextlib.suppress(OSError):  # the script has closed all files
            os.close(reserve)
        with open(os.path.join(here, "seen.json"), "w") as file:
            json.dump({"links": links, "text": text}, file)

    observed.report_at_exit(write)


def wait_for_the_script() -> None:
    """Imports what the script will import first, and waits for the word: lines of JSON, of which the last has folders
    for the import path. The script gets the interpreter as it would be but for that."""
    with open(os.path.join(here, "waits")) as file:
        number = int(file.read())
    gc.disable()  # all that is imported is there to stay
    import_all(["torch._dynamo"])  # which torch.compile imports
    with os.fdopen(number, "rb") as pipe:
        for line in pipe:
            word = json.loads(line)
            import_all(word.get("imports", []))
            if "path" in word:
                break
        else:
            os._exit(0)  # who would have said it has ended
    gc.enable()
    atexit.register(end_at_once)  # the first that is registered is the last that is called
    if word["path"]:
        sys.path[:0] = word["path"]
        paths = [*word["path"], *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def end_at_once() -> None:
    """Once all is said: taking apart all that torch has made takes as long again as a short script."""
    if has_failed:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the script may have closed it
                stream.flush()
        os._exit(1)


def import_all(modules: list[str]) -> None:
    """What cannot be imported the script will meet too."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


def note_records() -> None:
    """From now on records of any logger, INFO and above, and warnings are added to records.jsonl."""
    import logging
    import warnings

    handle, show = logging.Logger.handle, warnings._showwarnmsg  # type: ignore[attr-defined]

    def write(level: str, logger: str, message: str) -> None:
        with open(os.path.join(here, "records.jsonl"), "a") as file:
            file.write(json.dumps([level, logger, message]) + "\n")

    def noting_handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO:
            try:
                message = record.getMessage()
            except Exception:  # noqa: BLE001 - a message that does not fit its arguments: logging itself says so
                message = str(record.msg)
            write(record.levelname, record.name, message)
        handle(self, record)

    def noting_show(told: Any) -> None:
        write("WARNING", told.category.__name__, str(told.message))
        show(told)

    logging.Logger.handle = noting_handle  # type: ignore[method-assign]
    warnings._showwarnmsg = noting_show  # type: ignore[attr-defined]


def take_turns() -> None:
    """Runs the sitecustomize that would have been found without this one."""
    theirs = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if theirs is not None and theirs.loader is not None:
        sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
        theirs.loader.exec_module(sys.modules["sitecustomize"])


leave_the_path()
note_exception()
if os.path.exists(os.path.join(here, "waits")):
    wait_for_the_script()
if os.path.exists(os.path.join(here, "watch-logs")):
    note_records()
take_turns()
