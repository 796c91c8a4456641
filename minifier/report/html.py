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

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


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
    """Convert inline Markdown to HTML."""
    html = _STRONG.sub(r"<strong>\1</strong>", escape(text, quote=False))
    return Markup(_CODE.sub(r"<code>\1</code>", html))


def _coloured(text: str, language: str) -> Markup:
    """Return a program as HTML, each token with a class."""
    if not language:
        return Markup(escape(text))
    html = highlight(text, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    return Markup(html.rstrip("\n"))


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
