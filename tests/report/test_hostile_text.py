"""Messages and names in report.md are text: no HTML, links, mentions, headings or open fences come of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from case_samples import small_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from outcomes import outcome

from minifier.repro.report.markdown import (
    Report,
    Section,
    cell,
    code,
    fence,
    folded,
    items,
    markdown,
    page,
    prose,
    table,
)
from minifier.repro.report.sections import report_of

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
LIVE = ("html_inline", "html_block", "link_open", "image", "em_open", "strong_open", "s_open")
LINKED = re.compile(r"@\w|#\d|\bGH-\d|://|\bwww\.", re.IGNORECASE)
HOSTILE = (
    "L.a\n\n![x](http://evil/p.png)",
    "@everyone see #1",
    "<script>alert(1)</script><img src=x onerror=y> <!-- gone -->",
    "[click](javascript:alert(1)) ![i](http://evil.example/x.png) <https://evil.example>",
    "@maintainer look at #123, GH-7, owner/repo#8 and https://evil.example or www.evil.example; a@b.example.org",
    "` @one ` @two `` #3 ``` <b> ` [x](y)",
    "# heading\n## another\n> quote\n- item\n1. one\n---\n===\n```\nopen fence\n~~~\n    <b>indented</b>\n",
    "a | b\n--- | ---\n:--|--\n<td>c</td> | d",
    "[ref]: http://evil.example\n[ref] [^1]\n[^1]: note",
    "a \\| b `c \\| d` \\` @name \\",
    "*bold* _italic_ ~~gone~~ **b** snake_case __x__ &lt;b&gt; &#64;name $x$",
    "</details></summary></code></pre>``````",
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text("`@#<>[]()|!\\*_~ab1./:&-=\n \"'", max_size=40))


def live_parts(text: str) -> list[str]:
    """Return everything in the Markdown that is more than paragraphs, tables, lists, our headings and code."""
    found = []
    for token in RENDERER.parse(text):
        for part in (token, *(token.children or ())):
            if part.type in LIVE and part.content.strip() not in OWN_HTML:
                found.append(f"{part.type}: {part.content}")
            if part.type == "text" and LINKED.search(part.content):
                found.append(part.content)
            if part.type in ("fence", "code_block") and part.type == "code_block":
                found.append(f"indented: {part.content}")
    return found


FOLDED = ("more", "torch.utils.collect_env", "an error of minify")
OWN_HTML = ("</details>", *(f"<details>\n<summary>{title}</summary>" for title in FOLDED))


def shown(text: str) -> str:
    """Return the text that a reader sees, with one space for each white space."""
    parts = [part for token in RENDERER.parse(text) for part in token.children or ()]
    return " ".join("".join(part.content or " " * (part.type == "softbreak") for part in parts).split())


@settings(max_examples=200)
@example("[]:@")
@given(TEXTS)
def test_prose_is_inert_and_its_characters_are_shown(text):
    written = prose(text)
    assert live_parts(written) == []
    headings = [token.type for token in RENDERER.parse(written) if token.level == 0 and token.nesting >= 0]
    assert set(headings) <= {"paragraph_open", "inline"}
    plain = re.sub(r"[\s`]", "", text)
    assert re.sub(r"[\s`]", "", shown(written)) == plain


@settings(max_examples=100)
@example(":` `//")
@given(TEXTS)
def test_a_cell_shows_all_its_characters_in_every_renderer(text):
    written = cell(text)
    assert "|" not in written, "some renderers show the backslash that keeps a pipe from ending the cell"
    table = f"| a |\n| --- |\n| {written} |\n"
    assert live_parts(table) == []
    assert re.sub(r"[\s`]", "", shown(table)) == "a" + re.sub(r"[\s`]", "", text)


@settings(max_examples=100)
@given(TEXTS)
def test_inline_code_is_one_piece_of_code(text):
    (paragraph,) = [token for token in RENDERER.parse(f"it says {code(text)} there") if token.type == "inline"]
    pieces = [part.content for part in paragraph.children if part.type == "code_inline"]
    assert pieces == ([" ".join(text.split())] if text.split() else [])


@settings(max_examples=50)
@given(st.lists(TEXTS, min_size=5, max_size=5))
def test_every_block_holds_what_it_is_given(texts):
    title, item, in_cell, program, in_fold = texts
    of_items = prose(item), items((item,)), table(("a", "b"), ((in_cell, "x"),))
    blocks = (*of_items, fence(program), folded("more", fence(in_fold)))
    text = markdown(Report(f"t {title}", (Section("Heading", blocks),)))
    tokens = RENDERER.parse(text)
    assert live_parts(text) == []
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2"]
    assert [token.content.rstrip() for token in tokens if token.type == "fence"] == [program.rstrip(), in_fold.rstrip()]
    assert sum(token.type == "td_open" for token in tokens) == 2


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_report_of_a_hostile_failure_is_inert(hostile):
    failure = replace(small_case().failure, message=hostile, traceback=f"Traceback\n{hostile}", type=f"E{hostile}")
    case = outcome(failure)
    named = replace(case.case, backend=replace(case.case.backend, name=hostile, expression=f'"{hostile}"'))
    modules = (("L", hostile, f"m:{hostile}"),)
    nodes = tuple(replace(node, modules=modules) if node.is_op else node for node in named.graph.nodes)
    named = replace(named, graph=replace(named.graph, nodes=nodes))
    trace = (f"Traceback\n{hostile}",)
    given = replace(case, case=named, minimal=named, others=(hostile,), reason=hostile, environment=hostile)
    report = report_of(replace(given, errors=trace))
    assert live_parts(markdown(report)) == []
    assert not re.search(r"<(script|img|a|b)\b", page(report).partition("</style>")[2])
