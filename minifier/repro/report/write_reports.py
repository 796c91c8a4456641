"""Store a finished run and write its reports and bundle, now or again later."""

from __future__ import annotations

import functools
import json
import os
import shutil
import typing
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier.capturing.slicing.cases import definitions_left
from minifier.data.case import Level
from minifier.data.case.files import (
    MARK,
    MAX_TENSOR_BYTES,
    NotAFile,
    check_folder,
    is_made_here,
    is_own_repro,
    mark_of_repro,
    marked,
    read_bytes,
    read_text,
)
from minifier.data.case.run_folder import typed_path
from minifier.data.case.serial import pack, parsed, unpack, unpack_fields
from minifier.data.case.store import (
    ARTIFACTS,
    ATTEMPTS,
    CASE,
    FINISHED,
    GRAPH,
    RECORD,
    RESULT,
    load,
    write_atomically,
    written_whole,
)
from minifier.data.fields import regex, source, within
from minifier.errors import UsageError
from minifier.process.distributions import github_repository, installed
from minifier.repro.emit.files_beside import contents_beside, files_beside
from minifier.repro.emit.input_source import TENSOR_FILE
from minifier.repro.emit.repro import Repro
from minifier.repro.report.markdown import (
    MARKDOWN,
    PAGE,
    Issue,
    Section,
    fence,
    issue_of,
    items,
    markdown,
    page,
    prose,
    sections_of,
)
from minifier.repro.report.outcome import ORIGINS, PLACE, Outcome, result_data
from minifier.repro.report.privacy import (
    Ownership,
    changed_strings,
    noted_names,
    shareable,
    shareable_case,
    shareable_graph,
    without_private_paths,
)
from minifier.repro.report.redact import Redactor, Removal, SecretConstant, secret_constants, without_secret_comments
from minifier.repro.report.sections import report_of

MAX_DEPTH = 1000  # levels of nested expressions of a repro; a sum of terms has one for each

_VERSION = 4
# Fields of a run that are in files of their own, or in none. The others are in finished.json by their types.
_ELSEWHERE = ("case", "minimal", "repro", "folder", "mark", "is_own")
_STORED = {name: kind for name, kind in typing.get_type_hints(Outcome).items() if name not in _ELSEWHERE}


@dataclass(frozen=True, slots=True)
class Consent:
    """What the user agreed to have in the bundle.

    data: real values that the repro reads from a file.
    constants: constants of repro.py that look like secrets; without it, a repro with any goes into no bundle.
    """

    data: bool = False
    constants: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The reports of a run: the bundle's entries, what is not in it, and what was taken out of the files.

    bundle: the path of bundle.zip; None if `constants` keep it from being written.
    entries: (name, bytes) of each entry.
    left_out: (name, bytes) of each entry that is too large.
    constants: the constants of repro.py that look like secrets.
    issue: the report as an issue, if wanted; it is in no file yet.
    """

    bundle: Path | None
    entries: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, int], ...]
    constants: tuple[SecretConstant, ...]
    removals: tuple[Removal, ...]
    issue: Issue | None = None


def write_reports(out: Path, outcome: Outcome, consent: Consent = Consent(), with_issue: bool = False) -> Written:
    """Write result.json, report.md, report.html and bundle.zip into the output folder, and the data to rewrite them."""
    if outcome.repro is not None and outcome.case.level is not Level.SOURCE:  # its reason names the graph's scripts
        shutil.rmtree(out / ATTEMPTS, ignore_errors=True)
    if outcome.minimal is None:
        shutil.rmtree(out / "minimal", ignore_errors=True)
    owned = Ownership(outcome.case.script.path, outcome.backend_files, noted_names(out / "case"))
    redactor = _redactor(outcome)

    def clean(file: str, text: str) -> str:
        return shareable(redactor.clean(file, text), owned)

    constants = secret_constants(outcome.repro.text, redactor) if outcome.repro is not None else ()
    texts = {RESULT: _result_text(outcome, redactor)}
    of_case = case_entries(out, outcome, owned, redactor, clean)
    public = changed_strings(result_data(outcome), functools.partial(clean, RESULT))
    public = with_mark(public, out, of_case.get("repro.py", b""), consent.data)
    others = other_entries(out, outcome, consent.data) | artifact_entries(out, clean)
    entries, left_out = fitting({**of_case, RESULT: public.encode(), **others})
    report = report_of(_as_shown(outcome, owned, redactor, clean), outcome)
    files = tuple(bundle_section(entries, constants, consent.constants))
    texts |= {MARKDOWN: markdown(report.plus(files)), PAGE: page(report.plus(files))}
    culprit = "torch" if outcome.case.is_of_torch else outcome.case.backend.distribution
    issue = issue_of(report, github_repository(culprit) if culprit else "") if with_issue else None
    entries |= {name: texts[name].encode() for name in (MARKDOWN, PAGE)}
    _keep(out, outcome, consent, tuple(redactor.taken))
    for name, text in texts.items():
        write_atomically(out / name, text)
    bundle: Path | None = out / BUNDLE
    if consent.constants or not constants:
        write_bundle(out / BUNDLE, entries)
    else:
        (out / BUNDLE).unlink(missing_ok=True)
        bundle, entries = None, {}
    sizes = tuple((name, len(content)) for name, content in entries.items())
    removals = tuple(dict.fromkeys(redactor.removals))
    return Written(bundle, sizes, left_out, constants, removals, issue)


def remove_script(script: Path, keep: Collection[str] = ()) -> None:
    """Remove a script of an output folder, and the files that it reads but those to `keep`; nothing without it."""
    if script.exists():
        for name in {script.name, TENSOR_FILE, *files_beside(read_text(script))} - {*keep}:
            script.with_name(name).unlink(missing_ok=True)


def write_bare_reports(out: Path, outcome: Outcome) -> None:
    """Write result.json, and the tracebacks as report.md, after an error of this tool in `write_reports`."""
    for name in (PAGE, BUNDLE):  # of an earlier run in this folder
        (out / name).unlink(missing_ok=True)
    redactor = _redactor(outcome)
    traces = (fence(redactor.clean(MARKDOWN, error)) for error in outcome.errors)
    head = ("# minify could not write this report", "`minify report` of the folder tries it again.")
    result, text = _result_text(outcome, redactor), "\n\n".join([*head, *traces]) + "\n"
    _keep(out, outcome, Consent(), tuple(redactor.taken))
    write_atomically(out / RESULT, result)
    write_atomically(out / MARKDOWN, text)


def _as_shown(outcome: Outcome, owned: Ownership, redactor: Redactor, clean: Callable[[str, str], str]) -> Outcome:
    """Return the run with each text cleaned: what a report says of it may be shared."""
    shown: Outcome = changed_strings(outcome, functools.cache(functools.partial(clean, MARKDOWN)))
    if outcome.repro is None or shown.repro is None:
        return shown
    text = without_private_paths(redactor.clean(MARKDOWN, outcome.repro.text), owned.script)
    return replace(shown, repro=replace(shown.repro, text=text))


def _result_text(outcome: Outcome, redactor: Redactor) -> str:
    return json.dumps(changed_strings(result_data(outcome), functools.partial(redactor.clean, RESULT)), indent=1) + "\n"


def _redactor(outcome: Outcome) -> Redactor:
    """Return the redactor for a run's texts. Variables that the script set are as private as the user's own."""
    environment = {**os.environ, **dict(outcome.case.state.environment)}
    return Redactor(environment, raw_texts(outcome), outcome.secrets)


def raw_texts(outcome: Outcome) -> Iterator[str]:
    """Return the texts of a run that the reports quote, in which secrets are looked for."""
    for case in filter(None, (outcome.case, outcome.minimal)):
        failure = case.failure
        yield from (failure.message, failure.traceback, failure.written, case.definitions)
    yield from (outcome.repro.text if outcome.repro is not None else "", outcome.reason, outcome.environment)
    yield from (*outcome.others, *outcome.backend_fallbacks, *outcome.errors)
    check = outcome.verification
    for run in (*check.runs, *filter(None, [check.control])) if check is not None else ():
        yield run.output
        if run.failure is not None:
            yield from (run.failure.message, run.failure.traceback)


def _keep(out: Path, outcome: Outcome, consent: Consent, secrets: tuple[str, ...]) -> None:
    repro = outcome.repro
    data: dict[str, Any] = {
        **{name: pack(getattr(outcome, name)) for name in _STORED},
        "version": _VERSION,
        "repro": repro and {"template": pack(repro.template), "variant": pack(repro.variant), "names": repro.names},
        "mark_of_repro": outcome.mark,
        "include_data": consent.data,
        "include_constants": consent.constants,
        "secrets": list(secrets),  # a later run may not have their variables
    }
    data = marked(RECORD, data) if outcome.is_own else data
    write_atomically(out / FINISHED, json.dumps(data, indent=1) + "\n")


def read_finished(out: Path) -> tuple[Outcome, Consent]:
    """Return the finished run of an output folder, and what its bundle may have.

    Raises UsageError if there is no finished run, or its data are damaged.
    """
    path = out / FINISHED
    if not path.is_file():
        goes_on = f"\n`minify reduce {typed_path(out)}` goes on with it." if (out / "case" / CASE).exists() else ""
        raise UsageError(f"{out} has no {FINISHED}: it is not the output folder of a run that has ended.{goes_on}")
    check_folder(out)
    minimal = load(out / "minimal") if (out / "minimal" / CASE).exists() else None
    folder = out / "case" if (out / "case" / CASE).exists() else out / "minimal"
    if minimal is not None and minimal.level is Level.SOURCE:
        folder = out / "minimal"
    try:
        data = parsed(read_text(path))
        if data["version"] != _VERSION:
            raise ValueError(f"expected version {_VERSION}")
        sections = {name: _section(kind, name, data[name]) for name, kind in _STORED.items() if name in data}
        repro = _repro(out, data["repro"])
        own = is_made_here(RECORD, data)
        for pattern in filter(None, (sections.get("match"), sections.get("match_log"))):
            regex(pattern)
        mark = unpack(str, data["mark_of_repro"])
        outcome = Outcome(
            case=load(folder), minimal=minimal, repro=repro, folder=out, mark=mark, is_own=own, **sections
        )
        return outcome, Consent(bool(data["include_data"]), bool(data.get("include_constants", False)))
    except KeyError as error:
        raise UsageError(f"{path} is damaged: {error} is missing. Run minify again.") from None
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise UsageError(f"{path} is damaged: {error}. Run minify again.") from None


def _section(kind: Any, name: str, value: Any) -> Any:
    try:
        return unpack(kind, value)
    except ValueError as error:
        raise within(f".{name}", error) from None


def _repro(out: Path, data: dict[str, Any] | None) -> Repro | None:
    if data is None:
        return None
    text = read_text(out / "repro.py")
    try:
        source(text, max_depth=MAX_DEPTH)
    except ValueError as error:
        raise UsageError(f"{out / 'repro.py'} is damaged: {error}") from None
    files = {name: out / name for name in files_beside(text) if (out / name).exists()}
    tensors = out / TENSOR_FILE if TENSOR_FILE in text and (out / TENSOR_FILE).exists() else None
    repro: Repro = unpack_fields(Repro, data, text=text, tensors=tensors, files=files, given={})
    return repro


def said_size(size: int) -> str:
    """Return a size in bytes with a unit."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def bundle_section(
    entries: Mapping[str, bytes], constants: Sequence[SecretConstant], is_allowed: bool
) -> Iterable[Section]:
    """Return the section. `entries` are those beside the reports, whose sizes are known once they are written."""
    blocks = []
    if constants:
        where = ", ".join(map(str, constants))
        blocks.append(prose(f"Constants of `repro.py` look like secrets, and the failure needs them: {where}."))
    if constants and not is_allowed:
        blocks.append(f"So there is no {BUNDLE}: `minify report FOLDER --bundle-private` writes it all the same.")
    else:
        sizes = [f"`{name}`, {said_size(len(content))}" for name, content in entries.items()]
        blocks.append(items(["`report.md`, this report", "`report.html`, this report as a page", *sizes]))
    return sections_of(f"Files in {BUNDLE}", *blocks, level=3, weight=1)


LIMIT = 25 * 2**20  # bytes of an attachment on GitHub
BUNDLE = "bundle.zip"
_ENTRY_OVERHEAD_BYTES = 1 << 12  # for each entry's headers
_REPORTS_BYTES = 1 << 21  # for report.md and report.html, which name the other entries


def fitting(entries: Mapping[str, bytes], limit: int = LIMIT) -> tuple[dict[str, bytes], tuple[tuple[str, int], ...]]:
    """Return the entries that fit into a bundle of `limit` bytes beside the reports, the first ones first; and the
    (name, size) of the others, which the entry LEFT_OUT.txt lists."""
    held, left_out = dict[str, bytes](), dict[str, int]()
    remaining_bytes = limit - _ENTRY_OVERHEAD_BYTES - _REPORTS_BYTES
    for name, content in entries.items():
        size = len(zlib.compress(content)) + _ENTRY_OVERHEAD_BYTES
        if size > remaining_bytes:
            left_out[name] = len(content)
            continue
        remaining_bytes -= size
        held[name] = content
    if left_out:
        rows = "".join(f"{name}: {size} bytes\n" for name, size in left_out.items())
        held["LEFT_OUT.txt"] = f"Too large for an attachment of {limit} bytes:\n{rows}".encode()
    return held, tuple(left_out.items())


def write_bundle(path: Path, entries: Mapping[str, bytes]) -> None:
    """Write the archive with these entries."""
    with written_whole(path) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in entries.items():
            bundle.writestr(name, content)


def case_entries(
    folder: Path, outcome: Outcome, owned: Ownership, redactor: Redactor, clean: Callable[[str, str], str]
) -> dict[str, bytes]:
    """Return the entries with the repro and the reduced Case, without what is private; the repro's constants stay."""
    texts: dict[str, str] = {}
    if outcome.repro is not None:
        program = without_secret_comments("repro.py", outcome.repro.text, redactor)
        texts["repro.py"] = without_private_paths(program, owned.script)
    if (folder / f"minimal/{CASE}").exists():
        definitions = definitions_left(outcome.minimal) if outcome.minimal is not None else ""
        definitions = without_private_paths(redactor.clean(CASE, definitions), owned.script)
        case, graph = ((folder / "minimal" / name).read_text(encoding="utf-8") for name in (CASE, GRAPH))
        texts[f"minimal/{CASE}"] = shareable_case(case, definitions, functools.partial(clean, CASE))
        texts[f"minimal/{GRAPH}"] = shareable_graph(graph, functools.partial(clean, GRAPH))
    return {name: text.encode() for name, text in texts.items()}


def other_entries(folder: Path, outcome: Outcome, include_data: bool) -> dict[str, bytes]:
    """Return the entries with the installed packages and, with the user's permission, the files that the repro reads.

    Values are in a file only if the failure needs exactly these.
    """
    read = outcome.repro.beside if include_data and outcome.repro is not None else ()
    return {
        "packages.txt": installed().encode(),
        **{name: read_bytes(folder / name, MAX_TENSOR_BYTES) for name in read},
    }


def artifact_entries(folder: Path, clean: Callable[[str, str], str]) -> dict[str, bytes]:
    """Return the entries with what the compiler made of the reduced Case, without what is private."""
    entries: dict[str, bytes] = {}
    for path in sorted((folder / ARTIFACTS).glob("*")):
        name = f"{ARTIFACTS}/{path.name}"
        try:
            entries[name] = clean(name, read_text(path, errors="replace")).encode()
        except NotAFile as error:
            raise UsageError(f"{path}: {error.strerror}. Remove it.") from None
    return entries


def with_mark(data: dict[str, Any], folder: Path, program: bytes, include_data: bool) -> str:
    """Return result.json without places in the script, with the mark of the bundle's repro without private paths.

    There is none if the folder's repro has no mark: whoever lists a stranger's folder must not vouch for it.
    """
    path = folder / "repro.py"
    script = path.read_bytes() if path.exists() else b""
    beside = contents_beside(path, script.decode(errors="replace"))
    is_own = is_own_repro(data, script, beside)
    data[MARK] = (mark_of_repro(program, beside if include_data else {}) or None) if is_own else None
    for origin in data[ORIGINS]:
        del origin[PLACE]  # the script's file and line stay here, as in graph.json
    return json.dumps(data, indent=1)
