"""Observe a script in a fresh interpreter. Standard library only.

Python imports a copy of this file as `sitecustomize`. The copy records the exception that ends the interpreter, and the
names of the imported packages. It leaves the import path, and runs the user's own sitecustomize, if any. Files next to
the copy add work: with `watch-logs`, logs and warnings are recorded too; with `waits`, torch is imported ahead of the
script.
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

RESERVED_DESCRIPTOR = 250  # a high number: the script still gets the lowest ones


def leave_the_path() -> None:
    """Hide this file's folder from the script."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    paths = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e and e != here]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)


def note_exception() -> None:
    """Write the exception that ends the interpreter to seen.json, from now on."""
    spec = importlib.util.spec_from_file_location("_observed", os.path.join(here, "observed.py"))
    assert spec is not None and spec.loader is not None
    observed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(observed)

    # The script may use up all file descriptors: this reserves one for seen.json.
    low = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # above the limit of this process
        os.dup2(low, RESERVED_DESCRIPTOR, inheritable=False)
    os.close(low)

    def write(links: list[Any], text: str) -> None:
        global has_failed
        has_failed = True
        with contextlib.suppress(OSError):  # the script has closed all files
            os.close(RESERVED_DESCRIPTOR)
        with open(os.path.join(here, "seen.json"), "w") as file:
            json.dump({"links": links, "text": text}, file)

    observed.report_at_exit(write)


def note_packages() -> None:
    """Write the names of all top-level modules that were imported to packages.json, at the end."""

    def write() -> None:
        names = sorted({name.partition(".")[0] for name in list(sys.modules)})
        with contextlib.suppress(OSError), open(os.path.join(here, "packages.json"), "w") as file:
            json.dump(names, file)

    atexit.register(write)


def wait_for_the_script() -> None:
    """Import the script's likely imports early, then wait for the script.

    A pipe delivers lines of JSON: `imports` to do, and at last environment `variables` and `path`, with folders for the
    import path. Nothing else tells this interpreter from a fresh interpreter.
    """
    with open(os.path.join(here, "waits")) as file:
        descriptor = int(file.read())
    gc.disable()  # imported modules stay anyway
    import_all(["torch._dynamo"])  # which torch.compile imports
    with os.fdopen(descriptor, "rb") as pipe:
        for line in pipe:
            message = json.loads(line)
            import_all(message.get("imports", []))
            if "path" in message:
                break
        else:
            os._exit(0)  # the parent has ended
    gc.enable()
    atexit.register(end_at_once)  # registered first, called last
    os.environ.update(message["variables"])
    if message["path"]:
        sys.path[:0] = message["path"]
        paths = [*message["path"], *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def end_at_once() -> None:
    """Skip the teardown of a failed script, which takes as long as a short script itself."""
    if has_failed:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the script may have closed it
                stream.flush()
        os._exit(1)


def import_all(modules: list[str]) -> None:
    for module in modules:
        with contextlib.suppress(Exception):  # the script will see the same error
            importlib.import_module(module)


def note_records() -> None:
    """Append warnings and log records to records.jsonl, from now on."""
    import logging
    import warnings

    handle, show = logging.Logger.handle, warnings._showwarnmsg  # type: ignore[attr-defined]

    def write(level: str, logger: str, message: str) -> None:
        with open(os.path.join(here, "records.jsonl"), "a") as file:
            file.write(json.dumps([level, logger, message]) + "\n")

    def handle_and_note(self: logging.Logger, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a message that does not fit its arguments: logging itself says so
            message = str(record.msg)
        write(record.levelname, record.name, message)
        handle(self, record)

    def show_and_note(warning: Any) -> None:
        write("WARNING", warning.category.__name__, str(warning.message))
        show(warning)

    logging.Logger.handle = handle_and_note  # type: ignore[method-assign]
    warnings._showwarnmsg = show_and_note  # type: ignore[attr-defined]


def run_users_sitecustomize() -> None:
    """Run the sitecustomize that Python would have imported without this file."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


leave_the_path()
note_exception()
if os.path.exists(os.path.join(here, "waits")):
    wait_for_the_script()
if os.path.exists(os.path.join(here, "watch-logs")):
    note_records()
note_packages()
run_users_sitecustomize()
