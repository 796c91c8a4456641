"""The source files that notes/, docs/ and CONTRIBUTING.md name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "CONTRIBUTING.md", *sorted([*ROOT.glob("notes/*.md"), *ROOT.glob("docs/**/*.md")])]
SOURCE_FILE = re.compile(r"`((?:\w+/)+\w+\.py)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_source_file_that_a_page_names_exists(page):
    named = SOURCE_FILE.findall(page.read_text())
    assert [name for name in named if not any((ROOT / folder / name).exists() for folder in ("", "minifier"))] == []
