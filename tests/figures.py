"""`python tests/figures.py`: figures of the code in minifier/ that tell how hard it is to find one's way in it.

Lines, files at the top, names used twice, functions with many parameters, the words and sentences of the docstrings.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "minifier"
MAX_PARAMETERS = 6
# Words that stand where a noun would say more.
VAGUE = re.compile(r"\b(what|that of|those|such|it|one)\b", re.IGNORECASE)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def modules() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def repeated(names: Iterator[str]) -> list[str]:
    """The names that occur twice or more."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def file_names(parsed: dict[Path, ast.Module]) -> Iterator[str]:
    """The names of files, but for `__init__` and `__main__`."""
    return (path.stem for path in parsed if not path.stem.startswith("__"))


def class_names(parsed: dict[Path, ast.Module]) -> Iterator[str]:
    """The names of classes at the top of modules, private ones by the name behind the underscore."""
    for module in parsed.values():
        yield from (node.name.lstrip("_") for node in module.body if isinstance(node, ast.ClassDef))


def many_parameters(parsed: dict[Path, ast.Module]) -> list[str]:
    """Functions with more than `MAX_PARAMETERS` parameters, `self` and `cls` apart."""
    found = []
    for path, module in parsed.items():
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [each.arg for each in arguments if each.arg not in ("self", "cls")]
                if len(names) > MAX_PARAMETERS:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name} ({len(names)})")
    return found


def docstrings(parsed: dict[Path, ast.Module]) -> Iterator[str]:
    """Every docstring, in one line."""
    for module in parsed.values():
        for node in ast.walk(module):
            if isinstance(node, (*DEFINITIONS, ast.Module)) and (text := ast.get_docstring(node)):
                yield " ".join(text.split())


def sentences(text: str) -> list[str]:
    """The sentences of a text, without code."""
    return [each for each in re.split(r"(?<=[.:;?!])\s+", re.sub(r"`[^`]*`", "CODE", text)) if each.split()]


def vague_per_hundred(texts: list[str]) -> float:
    """How many of a hundred words are vague."""
    words = sum(len(text.split()) for text in texts)
    return 100 * sum(len(VAGUE.findall(text)) for text in texts) / words


def main() -> None:
    """Print the figures."""
    parsed = modules()
    prose = list(docstrings(parsed))
    notes = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "notes").glob("*.md"))]
    lengths = [len(sentence.split()) for text in prose for sentence in sentences(text)]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in parsed)
    print(f"lines                       {lines:,}")
    print(f"files                       {len(parsed)}")
    print(f"files at the top            {sum(path.parent == PACKAGE for path in parsed)}")
    print(f"file names used twice       {', '.join(repeated(file_names(parsed))) or 'none'}")
    print(f"class names used twice      {', '.join(repeated(class_names(parsed))) or 'none'}")
    print(f"over {MAX_PARAMETERS} parameters           {len(many_parameters(parsed))}")
    for function in many_parameters(parsed):
        print(f"                            {function}")
    vague = f"{vague_per_hundred(prose):.1f} in docstrings, {vague_per_hundred(notes):.1f} in notes"
    print(f"vague words per 100         {vague}")
    print(f"median sentence, words      {statistics.median(lengths):.0f} in docstrings")


if __name__ == "__main__":
    main()
