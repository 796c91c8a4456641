"""Every script and every command in docs/ is run, page by page, and says what the page says.

A fence below `<!-- file: NAME -->` is a file; one of the language `console` has commands after `$ ` and below each what
it prints, `...` standing for anything. What is longer, and of no matter there, is left out with a line of `...`.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Command:
    line: str
    said: list[str]


def commands(text: str) -> list[Command]:
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        else:
            found[-1].said.append(line)
    return found


def agrees(said: list[str], printed: list[str]) -> bool:
    """Whether the lines occur in this order; without a line `...` between them they follow each other."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n" for line in said
    )
    return re.search(rf"^{pattern}", "".join(line + "\n" for line in printed), re.MULTILINE) is not None


def runs(page: Path) -> bool:
    return "```console" in page.read_text()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if runs(page)], ids=lambda page: page.stem)
def test_what_the_page_shows_is_so(page, tmp_path, soak):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TORCH", "PYTEST"))}
    environment = {**kept, "PATH": path, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    for fence in FENCE.finditer(page.read_text()):
        if fence["file"]:
            (tmp_path / fence["file"]).write_text(fence["text"])
        elif fence["language"] == "console":
            for command in commands(fence["text"]):
                done = subprocess.run(
                    ["bash", "-c", command.line],
                    cwd=tmp_path,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=300,
                    check=False,
                )
                assert agrees(command.said, done.stdout.splitlines()), f"$ {command.line}\n{done.stdout}"


def test_every_page_is_in_the_navigation():
    named = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES)


# The addresses that a page or a style sheet loads by itself: not those of its links.
LOADED = re.compile(
    r"""<(?:link|image|use)\b[^>]*?\shref="?([^">]+)|\s(?:src|srcset|poster|data)="([^"]+)"""
    r"""|(?:url\(|@import)\s*["']?([^"')\s]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory, soak) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.timeout(120)
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(site):
    built = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html") if path.name != "404.html"}
    assert built == {page.relative_to(ROOT / "docs") for page in PAGES}
    files = [path for kind in ("html", "svg", "css") for path in site.rglob(f"*.{kind}")]
    addresses = {(path.name, "".join(each)) for path in files for each in LOADED.findall(path.read_text())}
    assert any(name == "index.html" and "bundle" in address for name, address in addresses)
    assert any(name == "index.html" and "site.css" in address for name, address in addresses)
    assert {each for each in addresses if re.match(r"(?i)(https?:)?//", each[1])} == set()
