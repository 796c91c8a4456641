"""report.html: a self-contained file with the content of report.md and the pictures."""

from __future__ import annotations

import functools
import re
from html import escape

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from minifier.report.blocks import Block, Report
from minifier.report.inline import spans


def page(report: Report) -> str:
    """Return the report as an HTML document."""
    return _environment().get_template("page.html.jinja").render(report=report)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("minifier", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"inline": _inline, "kind": _kind, "coloured": _coloured, "anchor": _anchor}
    return environment


def _kind(block: Block) -> str:
    return type(block).__name__


def _inline(text: str) -> Markup:
    """Convert a text with inline code to HTML."""
    parts = ((is_code, escape(content, quote=False)) for is_code, content in spans(text))
    return Markup("".join(f"<code>{part}</code>" if is_code else part for is_code, part in parts))


def _coloured(text: str, language: str) -> Markup:
    """Return a program as HTML, each token with a class."""
    if not language:
        return Markup(escape(text))
    html = highlight(text, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    return Markup(html.rstrip("\n"))


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
