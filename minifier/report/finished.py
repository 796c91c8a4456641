"""Store a finished run, and write its reports, now or again later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from minifier.case import Level
from minifier.case.encode import pack, unpack
from minifier.case.store import ATTEMPTS, CASE, load, write_atomically
from minifier.emit.forms import Template
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro
from minifier.errors import UsageError
from minifier.reduction.summary import Summary
from minifier.report.bundle import Bundle, write_bundle
from minifier.report.history import read_history
from minifier.report.html import page
from minifier.report.markdown import markdown
from minifier.report.outcome import Outcome, Status, write_result
from minifier.report.privacy import private_as_noted, shareable
from minifier.report.sections import report_of
from minifier.verify import Verification

FINISHED = "finished.json"
_VERSION = 2
_PLAIN = ("reason", "capture_seconds", "total_seconds", "ops_before", "match", "match_log", "nearest", "environment")


def write_reports(out: Path, outcome: Outcome, include_data: bool = False) -> Bundle:
    """Write result.json, report.md, report.html and bundle.zip into the output folder, and the data to rewrite them."""
    if outcome.repro is None:  # these files are of an earlier run in this folder
        (out / "repro.py").unlink(missing_ok=True)
        (out / TENSOR_FILE).unlink(missing_ok=True)
    elif outcome.case.level is not Level.SOURCE:  # whose reason names the scripts that did not show it as a graph
        shutil.rmtree(out / ATTEMPTS, ignore_errors=True)
    if outcome.minimal is None:
        shutil.rmtree(out / "minimal", ignore_errors=True)
    _keep(out, outcome, include_data)
    private = outcome.case.script.path
    with private_as_noted(out / "case"):
        report = report_of(outcome, read_history(out)).changed(lambda text: shareable(text, private))
        write_atomically(out / "report.md", markdown(report))
        write_atomically(out / "report.html", page(report))
        write_result(out, outcome)
        return write_bundle(out, outcome, include_data)


def _keep(out: Path, outcome: Outcome, include_data: bool) -> None:
    repro = outcome.repro
    data: dict[str, Any] = {
        "version": _VERSION,
        "status": outcome.status.value,
        "summary": pack(outcome.summary),
        "verification": pack(outcome.verification),
        "repro": repro and {"template": pack(repro.template), "tensors": repro.tensors is not None},
        "others": list(outcome.others),
        "fallbacks": list(outcome.fallbacks),
        "phases": outcome.phases,
        "include_data": include_data,
        **{name: getattr(outcome, name) for name in _PLAIN},
    }
    write_atomically(out / FINISHED, json.dumps(data, indent=1) + "\n")


def read_finished(out: Path) -> tuple[Outcome, bool]:
    """Return the finished run of an output folder, and whether its bundle may have real values.

    Raises UsageError if there is no finished run, or its data are damaged.
    """
    path = out / FINISHED
    if not path.is_file():
        raise UsageError(
            f"{out} has no {FINISHED}: it is not the output folder of a run that has ended.\n"
            f"`minify reduce {out}` goes on with one that was interrupted."
        )
    minimal = load(out / "minimal") if (out / "minimal" / CASE).exists() else None
    folder = out / "case" if (out / "case" / CASE).exists() else out / "minimal"
    if minimal is not None and minimal.level is Level.SOURCE:
        folder = out / "minimal"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            raise ValueError(f"expected version {_VERSION}")
        outcome = Outcome(
            Status(data["status"]),
            load(folder),
            minimal,
            unpack(Summary | None, data["summary"]),
            _repro(out, data["repro"]),
            unpack(Verification | None, data["verification"]),
            others=tuple(data["others"]),
            fallbacks=tuple(data["fallbacks"]),
            phases=dict(data.get("phases", {})),
            folder=out,
            **{name: data[name] for name in _PLAIN},
        )
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise UsageError(f"{path} is damaged: {error}. Run minify again.") from None
    return outcome, bool(data["include_data"])


def _repro(out: Path, data: dict[str, Any] | None) -> Repro | None:
    if data is None:
        return None
    template = Template(data["template"]) if data["template"] else None
    text = (out / "repro.py").read_text(encoding="utf-8")
    return Repro(text, template, out / TENSOR_FILE if data["tensors"] else None)
