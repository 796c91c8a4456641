"""`python tests/figures.py`: figures of the code in minifier/ that tell how hard it is to find one's way in it.

With --write, the architecture page gets them.

Lines, files at the top, names used twice, functions with many parameters, cycles, the calls of a run, words, sentences.
"""

from __future__ import annotations

import ast
import dataclasses
import graphlib
import importlib
import io
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from minifier.data.case import Case
from minifier.data.torch_names import PRIVATE_NAMES
from minifier.torch_side.interfaces import interfaces

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "minifier"
MAX_PARAMETERS = 6
SHORT_LINES = 50
STARTERS = ("os.fork", "os.posix_spawn", "subprocess.Popen", "subprocess.run")
# Words that stand where a noun would say more.
VAGUE = re.compile(r"\b(what|that of|those|such|it|one)\b", re.IGNORECASE)
# A backend that notes its stack: forked children have the frames of the processes that they were forked from.
NOTES_ITS_STACK = """
import json, os, traceback
import torch

def backend(gm, inputs):
    with open(os.environ["STACKS"], "a") as file:
        print(json.dumps([(frame.filename, frame.name) for frame in traceback.extract_stack()]), file=file)
    if "tanh" in gm.code:
        raise RuntimeError("no tanh")
    return gm.forward

torch.compile(lambda x: (x.sin().cos().exp() + 1).tanh().cos(), backend=backend)(torch.randn(3))
"""
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
MARKS = ("<!-- figures -->\n", "<!-- end of figures -->\n")
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


def starts(parsed: dict[Path, ast.Module]) -> list[str]:
    """Each place that makes a process by itself, and by what."""
    return [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node.func)}"
        for path, module in parsed.items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in STARTERS
    ]


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


def strings(parsed: dict[Path, ast.Module]) -> Iterator[str]:
    """Texts of at least three words in the code, docstrings apart: what a user may read."""
    for module in parsed.values():
        documented = {ast.get_docstring(node, clean=False) for node in ast.walk(module) if _may_have_docstring(node)}
        for node in ast.walk(module):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if text not in documented and len(text.split()) > 2:
                yield text


def _may_have_docstring(node: ast.AST) -> bool:
    return isinstance(node, (*DEFINITIONS, ast.Module))


def comments(paths: Iterator[Path]) -> Iterator[str]:
    """Every comment."""
    for path in paths:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("# ")


def lines_per_package(parsed: dict[Path, ast.Module]) -> Counter[str]:
    """Lines of code by package; files at the top by themselves."""
    lines: Counter[str] = Counter()
    for path in parsed:
        lines[path.relative_to(PACKAGE).parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def code_lines(source: str) -> int:
    """Lines of a module but for blank lines, comments and docstrings."""
    texts = [
        node.body[0]
        for node in ast.walk(ast.parse(source))
        if _may_have_docstring(node) and ast.get_docstring(node) is not None
    ]
    documented = {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    beside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = (range(token.start[0], token.end[0] + 1) for token in tokens if token.type not in beside)
    return len({line for lines in held for line in lines} - documented)


def layers() -> list[list[str]]:
    """The layers of the package, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return [line.split(" | ") for line in next(c["layers"] for c in contracts if c["type"] == "layers")]


def climbs_and_returns(packages: Sequence[str], order: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How often a call goes to a higher layer, and how often to a package that was left before."""
    height = {name: -place for place, line in enumerate(order) for name in line}
    moves = [(one, other) for one, other in itertools.pairwise(packages) if one != other]
    climbs = sum(height[other] > height[one] for one, other in moves)
    entered = [packages[0], *(other for _, other in moves)]
    return climbs, len(entered) - len(set(entered))


def imports(squashed: bool) -> dict[str, set[str]]:
    """What each module imports when the tool runs, or with `squashed` each package."""
    import grimp

    graph = grimp.build_graph("minifier", exclude_type_checking_imports=True)
    for package in graph.find_children("minifier") if squashed else ():
        graph.squash_module(package)
    # The package itself imports its public functions when they are first used.
    modules = graph.modules - {"minifier"}
    return {module: graph.find_modules_directly_imported_by(module) & modules - {module} for module in modules}


def cycle(imported: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, or []."""
    try:
        graphlib.TopologicalSorter(imported).prepare()
    except graphlib.CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


Frame = tuple[str, str]  # file in minifier/, function


def recorded_stack() -> list[Frame]:
    """The tool's frames between a command and the backend, of the first probe that the search makes in a run."""
    with tempfile.TemporaryDirectory() as folder:
        script, stacks = Path(folder) / "noting.py", Path(folder) / "stacks"
        script.write_text(NOTES_ITS_STACK, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "minifier",
            "run",
            "--quiet",
            "--verify",
            "1",
            "--out",
            f"{folder}/out",
            script,
        ]
        environment = {**os.environ, "STACKS": str(stacks)}
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=300, check=True)
        for line in stacks.read_text(encoding="utf-8").splitlines():
            own = [(str(Path(file).relative_to(PACKAGE)), name) for file, name in json.loads(line) if is_own(file)]
            if any(file.startswith("search/") for file, _ in own):
                return own
    raise LookupError("no probe of the search was recorded")


def is_own(file: str) -> bool:
    return Path(file).is_relative_to(PACKAGE)


def calls(stack: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """The calls from the command to the search, and from the search to the backend's compilation."""
    command = next(i for i, (file, _) in enumerate(stack) if file == "flow/cli/commands.py")
    searching = [i for i, (file, _) in enumerate(stack) if file.startswith("search/")]
    return list(stack[command + 1 : searching[0] + 1]), list(stack[searching[-1] + 1 :])


def described(frames: Sequence[Frame]) -> str:
    """How many calls these are, and how many of them are of the process layer."""
    return f"{len(frames)}, {sum(file.startswith('process/') for file, _ in frames)} of them in process/"


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure with its label, and lines of details. The architecture page shows those that are `on_page`."""

    label: str
    text: str
    details: tuple[str, ...] = ()
    on_page: bool = False


def figures() -> Iterator[Figure]:
    """Measure everything; one run of the command is part of it."""
    parsed = modules()
    lines = lines_per_package(parsed)
    yield Figure("lines", f"{lines.total():,}", tuple(f"{count:6,} {name}" for name, count in lines.most_common()))
    code = sum(code_lines(path.read_text(encoding="utf-8")) for path in parsed)
    yield Figure("lines of code", f"{code:,} without blanks, comments and docstrings", on_page=True)
    short = sum(len(path.read_text(encoding="utf-8").splitlines()) <= SHORT_LINES for path in parsed)
    yield Figure("files", f"{len(parsed)}, {short} of {SHORT_LINES} lines or less", on_page=True)
    of_tests = sum(code_lines(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py"))
    yield Figure("lines of code in tests", f"{of_tests:,}", on_page=True)
    yield Figure("layers", str(len(layers())), on_page=True)
    yield Figure("places that start a process", str(len(starts(parsed))), tuple(starts(parsed)), on_page=True)
    yield Figure("fields of a Case", str(len(dataclasses.fields(Case))))
    importlib.import_module("minifier.torch_side.torch_private")  # which declares the interfaces
    private = f"{len(PRIVATE_NAMES)} in texts, {len(interfaces())} interfaces"
    yield Figure("private names of torch", private, on_page=True)
    yield Figure("files at the top", str(sum(path.parent == PACKAGE for path in parsed)))
    yield Figure("file names used twice", ", ".join(repeated(file_names(parsed))) or "none")
    yield Figure("class names used twice", ", ".join(repeated(class_names(parsed))) or "none")
    long = tuple(many_parameters(parsed))
    yield Figure(f"over {MAX_PARAMETERS} parameters", str(len(long)), long)
    yield Figure("cycle of packages", " -> ".join(cycle(imports(squashed=True))) or "none", on_page=True)
    yield Figure("cycle of modules", " -> ".join(cycle(imports(squashed=False))) or "none", on_page=True)
    to_search, to_backend = calls(recorded_stack())
    yield Figure("calls, command to search", described(to_search), on_page=True)
    yield Figure("calls, search to backend", described(to_backend), on_page=True)
    way = (*to_search, *to_backend)
    climbs, returns = climbs_and_returns([file.partition("/")[0].removesuffix(".py") for file, _ in way], layers())
    text = f"{climbs} to a higher layer, {returns} to a package that was left before"
    yield Figure("climbs, returns", text, tuple(f"{file} {name}" for file, name in way), on_page=True)
    prose = list(docstrings(parsed))
    texts = {
        "docstrings": prose,
        "comments": list(comments(iter(parsed))),
        "strings": list(strings(parsed)),
        "notes": read(ROOT / "notes"),
        "docs": read(ROOT / "docs"),
        "README": [(ROOT / "README.md").read_text(encoding="utf-8")],
    }
    vague = ", ".join(f"{vague_per_hundred(text):.1f} in {name}" for name, text in texts.items())
    yield Figure("vague words per 100", vague)
    lengths = [len(sentence.split()) for text in prose for sentence in sentences(text)]
    yield Figure("median sentence, words", f"{statistics.median(lengths):.0f} in docstrings")


def with_table(page: str, measured: Sequence[Figure]) -> str:
    """Return the page with a new table between its two marks."""
    before, rest = page.split(MARKS[0])
    rows = "".join(f"| {figure.label} | {figure.text} |\n" for figure in measured if figure.on_page)
    return f"{before}{MARKS[0]}\n| figure | |\n| --- | --- |\n{rows}{MARKS[1]}{rest.split(MARKS[1])[1]}"


def main() -> None:
    """Print the figures; with --write, put them into the architecture page."""
    measured = list(figures())
    for figure in measured:
        print(f"{figure.label:27} {figure.text}")
        for line in figure.details:
            print(f"{'':27} {line}")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")


def read(folder: Path) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.md"))]


if __name__ == "__main__":
    main()
