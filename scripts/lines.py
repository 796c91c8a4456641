"""Check that no room of the tool has more lines of code than its budget: `python scripts/lines.py`.

pyproject.toml has the budgets, which only go down: a commit that makes a room smaller lowers its number, and one that
raises it says why. A line of code is one that has more than a blank, a comment or a docstring in it.
"""

from __future__ import annotations

import sys
import tokenize
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
_BLANK = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path: Path) -> int:
    """Return how many lines of code a Python file has."""
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _BLANK]
    lines: set[int] = set()
    begins = True
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        is_docstring = begins and token.type == tokenize.STRING and (after is None or after.type == tokenize.NEWLINE)
        begins = token.type == tokenize.NEWLINE
        if not begins and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def main() -> None:
    """Print the rooms that have outgrown their budget, and those whose budget is to be lowered; fail at the former."""
    budgets: dict[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["lines"]
    too_large = False
    for room, budget in budgets.items():
        paths = (ROOT / room).rglob("*.py") if (ROOT / room).is_dir() else [ROOT / room]
        rooms_within = [ROOT / each for each in budgets if each.startswith(f"{room}/")]
        lines = sum(code_lines(path) for path in paths if not any(map(path.is_relative_to, rooms_within)))
        if lines > budget:
            print(f"{room}: {lines} lines of code, over its budget of {budget}; take something out (CONTRIBUTING.md)")
            too_large = True
        elif lines < budget:
            print(f"{room}: {lines} lines of code; lower its budget of {budget} in pyproject.toml")
    sys.exit(too_large)


if __name__ == "__main__":
    main()
