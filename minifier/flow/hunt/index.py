"""index.html of a hunt: each subject in each variant by a colour, and the failures with their repros."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from html import escape
from pathlib import Path

from minifier.data.failure import Kind
from minifier.flow.hunt.records import Group, ProgramResult, Records
from minifier.flow.hunt.summary import DistinctFailure, cells
from minifier.flow.hunt.trial import Answer
from minifier.process.progress import counted

_TEMPLATE = Path(__file__).with_name("index.html")
_CLASSES = {
    Answer.WORKS: "works",
    Answer.FALLBACK: "by fallback",
    Answer.UNSUPPORTED: "not supported",
    Answer.FAILS: "fails",
    Answer.NO_GRAPH: "says nothing",
    Answer.LEFT_OUT: "says nothing",
}
_NOT_TRIED = "not tried"
# What a failing cell shows: † for a death, ∞ for a hang.
_MARKS = {Kind.SIGNAL: "†", Kind.EXIT: "†", Kind.TIMEOUT: "∞"}
_SCRIPT = """
const rows = [...document.querySelectorAll("tbody tr")], text = document.querySelector("#asked input");
const buttons = [...document.querySelectorAll("#asked button")];
function show() {
  const wanted = buttons.filter(each => each.getAttribute("aria-pressed") == "true").map(each => each.className);
  for (const row of rows) {
    const has = [...row.cells].some(cell => wanted.includes(cell.className));
    row.hidden = !has || !row.cells[0].textContent.toLowerCase().includes(text.value.toLowerCase());
  }
}
text.oninput = show;
for (const each of buttons) each.onclick = () => {
  each.setAttribute("aria-pressed", each.getAttribute("aria-pressed") == "true" ? "false" : "true");
  show();
};
"""


def index(title: str, records: Records, failures: list[DistinctFailure]) -> str:
    """Return the page. It fetches nothing; all texts are escaped."""
    script = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    content = "\n".join((f"<h1>{escape(title)}</h1>", _failures(records, failures), _table(records, failures)))
    page = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in (("hash", script), ("title", escape(title)), ("script", _SCRIPT), ("content", content)):
        page = page.replace(f"{{{name}}}", value, 1)
    return page


def _failures(records: Records, failures: list[DistinctFailure]) -> str:
    if not failures:
        return ""
    blocks = []
    for failure in failures:
        place = failure.group.folder.path.relative_to(records.folder)
        repro = failure.group.folder.repro
        text = repro.read_text(encoding="utf-8") if repro.exists() else ""
        note = f"<small>({escape(failure.cost)}; {escape(failure.status)})</small>"
        blocks.append(
            f'<details id="failure-{failure.group.number}"><summary><code>{escape(failure.what)}</code>: '
            f"{escape(failure.group.failure.sentence)} {note}</summary>"
            f'<pre>{escape(text)}</pre><a href="{escape(str(place))}/report.html">{escape(str(place))}</a></details>'
        )
    return "\n".join((f"<h2>{counted(len(failures), 'distinct failure')}</h2>", *blocks))


def _table(records: Records, failures: list[DistinctFailure]) -> str:
    known = cells(records)
    variants = list(dict.fromkeys(variant for _, variant in known))
    subjects = list(dict.fromkeys(subject for subject, _ in known))
    counts = Counter(_class(known.get((subject, variant))) for subject in subjects for variant in variants)
    buttons = "".join(
        f'<button class="{_slug(name)}" aria-pressed="true">{name}: {counts[name]}</button>'
        for name in dict.fromkeys([*_CLASSES.values(), _NOT_TRIED])
    )
    shown = {number: failure.group for failure in failures for number in failure.numbers}
    rows = [
        f"<tr><th>{escape(subject)}</th>{''.join(_cell(known.get((subject, each)), shown) for each in variants)}</tr>"
        for subject in subjects
    ]
    head = "".join(f"<th>{escape(variant) or 'as given'}</th>" for variant in variants)
    return (
        f'<h2>What was tried</h2><div id="asked"><input placeholder="name" aria-label="name">{buttons}</div>'
        f'<div class="wide"><table><thead><tr><th>program</th>{head}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def _class(cell: ProgramResult | None) -> str:
    return _NOT_TRIED if cell is None else _CLASSES[cell.answer]


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def _cell(cell: ProgramResult | None, shown: dict[int, Group]) -> str:
    """Return a cell; `shown` is the group that stands for the failure of each."""
    if cell is None:
        return f'<td class="{_slug(_NOT_TRIED)}"></td>'
    mark = {Answer.WORKS: "✓", Answer.FAILS: "×"}.get(cell.answer, "")  # noqa: RUF001
    if (group := shown.get(cell.group)) is not None:
        mark = f'<a href="#failure-{group.number}">{_MARKS.get(group.failure.fingerprint.kind, mark)}</a>'
    title = escape(cell.told, quote=True)
    return f'<td class="{_slug(_class(cell))}" title="{title}">{mark}</td>'
