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
from click.core import Option

from minifier.cli.commands import cli

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


@pytest.mark.timeout(280)
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
                    timeout=200,
                    check=False,
                )
                assert agrees(command.said, done.stdout.splitlines()), f"$ {command.line}\n{done.stdout}"


def test_every_script_belongs_to_a_command():
    """What nobody runs may be wrong."""
    for page in PAGES:
        files = [fence["file"] for fence in FENCE.finditer(page.read_text()) if fence["language"] == "python"]
        assert None not in files, f"{page.name} has a script without a name"
        assert not files or runs(page), page.name


@pytest.mark.parametrize("name", ["run", "reduce", "check", "report"])
def test_every_option_is_in_the_reference(name):
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    options = [option for option in cli.commands[name].params if isinstance(option, Option)]
    missing = [long for option in options for long in option.opts if long.startswith("--") and f"`{long}" not in text]
    assert set(missing) <= {"--timeout", "--help"}, missing
    assert name in text


@pytest.mark.timeout(120)
def test_the_site_can_be_made(tmp_path, soak):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    built = {path.relative_to(tmp_path / "site").parent for path in (tmp_path / "site").rglob("index.html")}
    assert len(built) == len(PAGES)
