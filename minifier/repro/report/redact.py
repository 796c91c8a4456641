"""Take secrets out of texts: values of variables, what looks like a secret, and what is left of both elsewhere.

Each text is cleaned once, where it enters a report or a file of the bundle. The constants of a repro stay, as the
failure needs them: they are listed.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from minifier.data.case.switches import MIN_SECRET_CHARACTERS, is_secret
from minifier.data.failure.normalise import normalise, printable, without_colours
from minifier.repro.report.secrets import Found, find_secrets

_MIN_PREFIX_CHARACTERS = 8
_MIN_LINE_CHARACTERS = 16  # of a secret of several lines
_MAX_FORM_CHARACTERS = 10_000  # that are compared; of a longer secret, the shape finds the rest
_NOTED = "value of a variable"  # of an earlier run
_HEAD_CHARACTERS = 2  # of a secret that is shown to its owner
_ORDINARY_VALUES = frozenset({"default", "enabled", "disabled", "required", "optional", "unknown", "wayland"})
_PLACEHOLDER = re.compile(r"<\w+>")
_ENCODERS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: quote(text, safe=""),
)


@dataclass(frozen=True, slots=True)
class Removal:
    """A secret that was taken out of a text for this file: its kind, and its first characters."""

    kind: str
    file: str
    head: str


@dataclass(frozen=True, slots=True)
class _Form:
    """A form in which a secret may occur. Its head is enough of it."""

    text: str
    head: str
    kind: str


class Redactor:
    """Replaces secrets by `<secret>`, `<e-mail>` or `<ip>`.

    Secrets are the values of `environment` whose names say so, parts of its other values that look like secrets, and
    what looks like a secret in `texts`. `noted` are texts that an earlier run took out.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, texts: Iterable[str] = (), noted: Iterable[str] = ()
    ) -> None:
        self.removals: list[Removal] = []
        self.taken: dict[str, None] = {}  # what the texts have of values of variables
        values: dict[str, str] = dict.fromkeys(noted, _NOTED)
        self._named: set[str] = set()
        environment = {name: without_colours(value) for name, value in environment.items()}
        for name, value in environment.items():
            if is_secret(name) and not os.path.isdir(value) and value.lower() not in _ORDINARY_VALUES:
                self._named.add(f"value of {name}")
                values.update(dict.fromkeys(_pieces("", value), f"value of {name}"))
        for text in (*environment.values(), *map(without_colours, texts)):
            for found in find_secrets(text):
                if found.everywhere:
                    for piece in _pieces(found.kind, text[found.start : found.end]):
                        values.setdefault(piece, found.kind)
        self._forms = _forms_by_beginning(values)

    def find(self, text: str) -> list[Found]:
        """Return the places of secrets, in order, without overlaps."""
        merged: list[Found] = []
        for span in sorted([*self._values_in(text), *find_secrets(text)], key=lambda span: (span.start, -span.end)):
            last = merged[-1] if merged else None
            if last is None or span.start >= last.end:
                merged.append(span)
            elif span.end > last.end:
                merged[-1] = replace(last, end=span.end)
        return merged

    def _values_in(self, text: str) -> Iterator[Found]:
        for start in range(len(text) if self._forms else 0):
            for form in self._forms.get(text[start : start + MIN_SECRET_CHARACTERS], ()):
                if not text.startswith(form.head, start):
                    continue
                end = start + _common(form.text, text, start)
                if form.kind in (_NOTED, *self._named):
                    self.taken[text[start:end]] = None
                yield Found(form.kind, start, end, "<secret>", everywhere=True)

    def clean(self, file: str, text: str) -> str:
        """Return a text for this file with placeholders; `removals` gets a row for each.

        Control characters of a message reach no terminal that shows the file.
        """
        text = without_colours(text)
        pieces, position = list[str](), 0
        for span in self.find(text) if len(text) >= MIN_SECRET_CHARACTERS else ():
            self.removals.append(Removal(span.kind, file, text[span.start : span.end][:_HEAD_CHARACTERS]))
            pieces += [text[position : span.start], span.placeholder]
            position = span.end
        return printable("".join([*pieces, text[position:]]))


def _common(form: str, text: str, start: int) -> int:
    """Return how many characters of the form the text has from `start` on, by halving."""
    low, high = 0, min(len(form), len(text) - start)
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(form[low:middle], start + low):
            low = middle
        else:
            high = middle - 1
    return low


def _pieces(kind: str, value: str) -> list[str]:
    """Return the parts of a secret that are secrets in other texts too."""
    if kind == "user in a URL":
        pieces = [value.rpartition(":")[2]]
    elif kind == "cookie":
        pieces = [part.partition("=")[2].strip() for part in value.split(";")]
    else:
        lines = [line.strip() for line in value.splitlines()]
        pieces = [value.strip()]
        pieces += [line for line in lines if len(line) >= _MIN_LINE_CHARACTERS and not line.startswith("-----")]
    return [piece for piece in pieces if len(piece) >= MIN_SECRET_CHARACTERS]


def _forms_by_beginning(values: Mapping[str, str]) -> dict[str, list[_Form]]:
    """Return all forms in which the values may occur, by their first characters."""
    forms: dict[str, list[_Form]] = {}
    for value, kind in values.items():
        folder = os.path.dirname(value)
        whole = len(folder) > 1 and os.path.isdir(folder)  # a path, whose first characters are those of every path
        for text in dict.fromkeys(encode(written) for written in _normalised(value) for encode in _ENCODERS):
            if len(text) >= MIN_SECRET_CHARACTERS:
                form = _Form(text[:_MAX_FORM_CHARACTERS], text if whole else _head(text), kind)
                forms.setdefault(text[:MIN_SECRET_CHARACTERS], []).append(form)
    return forms


def _normalised(value: str) -> list[str]:
    """Return the value, and what is left of it where numbers were taken out of a message."""
    forms = [value]
    for form in (normalise(value), re.sub(r"\d[\d.]*", "<number>", value)):
        bare = " ".join(_PLACEHOLDER.sub(" ", form).split())
        forms += [each for each in (form, bare) if _telling_characters(each) >= MIN_SECRET_CHARACTERS]
    return forms


def _telling_characters(text: str) -> int:
    return len(_PLACEHOLDER.sub("", text))


def _head(form: str) -> str:
    """Return the shortest prefix with enough characters beyond a URL's scheme and placeholders, else the whole form."""
    beyond = form.find("://") + len("://") if "://" in form else 0
    for size in range(beyond + _MIN_PREFIX_CHARACTERS, len(form)):
        if _telling_characters(form[beyond:size]) >= _MIN_PREFIX_CHARACTERS:
            return form[:size]
    return form


@dataclass(frozen=True, slots=True)
class SecretConstant:
    """A constant of repro.py that looks like a secret: its line, and the kind of secret."""

    line: int
    kind: str

    def __str__(self) -> str:
        return f"line {self.line} ({self.kind})"


def secret_constants(program: str, redactor: Redactor) -> tuple[SecretConstant, ...]:
    """Return the strings of a program that look like secrets, in order."""
    try:
        nodes = list(ast.walk(ast.parse(program)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    texts = [(node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant)]
    found = {
        (line, span.kind)
        for line, value in texts
        if isinstance(value, (str, bytes))
        for span in redactor.find(value.decode("latin-1") if isinstance(value, bytes) else value)
    }
    return tuple(SecretConstant(*each) for each in sorted(found))


def without_secret_comments(file: str, program: str, redactor: Redactor) -> str:
    """Return a file's program with placeholders in its comments; its code stays."""
    lines = program.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(program).readline))
    except (tokenize.TokenError, SyntaxError):
        return program
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            rest = lines[row][column + len(token.string) :]
            lines[row] = lines[row][:column] + redactor.clean(file, token.string) + rest
    return "".join(lines)
