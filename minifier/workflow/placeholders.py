"""Replace constants of a repro that look like secrets by placeholders, if fresh interpreters still show the failure."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from minifier.case import Case, Level
from minifier.emit.repro import Repro
from minifier.errors import NoRepro
from minifier.report.redact import Redactor
from minifier.report.secret_constants import without_secret_constants
from minifier.source.run_source import in_eager
from minifier.workflow.attempt import Attempt
from minifier.workflow.repro_search import ReproSearch, search_for, with_shown_exception


def with_placeholders(attempt: Attempt) -> Attempt:
    """Return the attempt with a verified repro without such constants; unchanged if there are none or they are needed.

    Ctrl-C leaves the repro as it is.
    """
    result = attempt.repro_result
    if result is None or result.repro is None:
        return attempt
    texts = (result.repro.text, result.case.definitions, attempt.case.definitions)
    redactor = Redactor(os.environ, texts)
    text, constants = without_secret_constants(result.repro.text, redactor)
    if not constants:
        return attempt
    repro = replace(result.repro, text=text)
    attempt.run.ui.say(f"repro.py has what looks like a secret: {', '.join(map(str, constants))}; trying placeholders")
    with contextlib.suppress(KeyboardInterrupt, NoRepro):
        search = search_for(attempt, _with_placeholder_in_message(result.case, redactor))
        control = _control(search, repro)
        control = replace(control, text=without_secret_constants(control.text, redactor)[0])
        check = search.verified(repro, (), attempt.run.settings.verify, control)
        if check.holds:
            repro = with_shown_exception(repro, result.case, check.runs[-1].failure)
            repro.write(attempt.folder.path)
            return replace(attempt, repro_result=replace(result, repro=repro, check=check))
    attempt.run.ui.say("the repro keeps them: with placeholders, fresh interpreters do not show the failure")
    return attempt


def _with_placeholder_in_message(case: Case, redactor: Redactor) -> Case:
    """Return the Case with the message of a failure that quotes the placeholder instead of the constant."""
    fingerprint = case.failure.fingerprint
    message, native = redactor.replaced(fingerprint.message), redactor.replaced(fingerprint.native)
    return replace(
        case, failure=replace(case.failure, fingerprint=replace(fingerprint, message=message, native=native))
    )


def _control(search: ReproSearch, repro: Repro) -> Repro:
    if search.case.level is Level.SOURCE:
        return replace(repro, text=in_eager(repro.text))
    return search.control(repro)
