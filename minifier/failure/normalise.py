"""Removal of everything in a message that varies between graphs."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from textwrap import shorten

from minifier.failure.quoted_context import without_context

_MAX_HEADLINE_LINES, _MAX_HEADLINE_CHARACTERS = 3, 300
_MAX_WHOLE_LINES = 6  # of a longer message, only the first and the accusing line count
_MAX_CHARACTERS = 600
_MAX_READ_CHARACTERS = 400_000  # in which quoted context is looked for
_MAX_END_CHARACTERS = 10_000  # read at each end of a message, because the patterns take linear time
# A compiler's command line names files and may contain flags that depend on the graph.
_COMMAND, _HAS_ENDED = "Command ", (" returned non-zero exit status", " died with ")
# A command line elsewhere in a message: two flags or more, and the files after them.
_FILE = r"(?: (?!-)(?:[^\s'\",]*[./]\w[^\s'\",]*|<path>))*"
_FLAGS = re.compile(rf"(?: --?(?!inf\b|nan\b)[A-Za-z][^\s'\",]*{_FILE}){{2,}}")
# A symbol of a size; those in the second line are also dtypes.
_SYMBOL = r"(?:zuf|uf|zf|ps|ks|[us])\d+"
_BARE_SYMBOL = rf"\b(?![us](?:1|8|16|32|64)\b){_SYMBOL}\b"
_SIZE = rf"(?:<number>|<shape>|\?|{_SYMBOL})"
_NO_CODE = r"(?<!\b[Ee]rror[ =#])(?<!\b[Cc]ode[ =#])(?<!\bstatus )"  # a number that does not identify the error
_POSITION = r"(?::\d+(?::\d+)?|\(\d+\))"
_REPLACEMENTS = (
    (re.compile(r"[ \t]+"), " "),
    (re.compile(rf"{_NO_CODE}0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(rf"^\S+{_POSITION}: (?=(?:fatal )?error: )", re.MULTILINE), ""),
    (re.compile(r"^\d+ errors? (?:detected|generated)\b.*", re.MULTILINE), ""),
    (re.compile(r"(?<![\w.+@~/-])[\w.+@~-]*(?:/[\w.+@-]+){2,}"), "<path>"),
    (_FLAGS, " <flags>"),
    # Names of generated kernels and files.
    (
        re.compile(r"\b(?:triton_(?:(?:_|fused|poi|per|red|tem|for|mm)\w*)?|cpp_(?:vec_)?fused\w*|tvmgen_\w+)\b"),
        "<kernel>",
    ),
    (re.compile(r"\b[\w$]+?_dispatch_\d+\w*"), "<kernel>"),
    (re.compile(r"(?<![a-z0-9])c[a-z2-7]{40,}(?![a-z0-9])"), "<hash>"),
    # Names of nodes, as ONNX Runtime, OpenVINO and TensorRT print them.
    (re.compile(r"(\b[Nn]ame: ?|\bfriendly_name |\b(?:layer|node) with name )'[^'\n]*'"), r"\1<name>"),
    (re.compile(r"(\b[Nn]ode )(?:\([^()\n]*\)|\{[^{}\n]*\})"), r"\1<name>"),
    (re.compile(r"(While validating node '[\w:]+) [^'\n]*'"), r"\1 <name>'"),
    # Sizes in types: tensor<2x3xf32>, f32[2, 3], i64{}.
    (re.compile(r"(?<=<)(?:(?:\d+|\?)x)+(?=[a-z!])"), ""),
    (re.compile(r"\b((?:[a-z]|bf|si|ui|float|int|uint)\d+)(?:\[[^\[\]\n]*\]|\{[^{}\n]*\})"), r"\1<shape>"),
    (re.compile(r"(?<=vtensor<)\[\]|(?<=Size\()\[\]|(?<=shape=)\(\)"), "<shape>"),
    (re.compile(r"\b\d+(?:x\d+)+\b"), "<shape>"),
    (re.compile(r"(?<![\w.])(?:Dim(?:ension)?|SymInt|T\.int(?:32|64))\((\d+)\)"), r"\1"),  # [Dim(2), Dim(6)] of MAX
    (re.compile(_BARE_SYMBOL), "<number>"),
    (re.compile(r"(?<!\w)%(?:[A-Za-z_]\w*|\d+)(?:#\d+)?"), "%<node>"),  # nodes of FX, values of MLIR
    (re.compile(r"(?<=[A-Za-z])_\d+\b"), ""),  # add_12 is add
    # Bytes may be given in another unit.
    (re.compile(r"\b\d+(?:\.\d+)?(?:[KMGT]|[kKMGT]?B| ?[KMGT]i?B)\b"), "<bytes>"),
    (re.compile(rf"{_NO_CODE}\b\d[\d.]*(?:e[+-]?\d+)?\b"), "<number>"),
    (re.compile(r"(?<=[ (=,:])-<number>"), "<number>"),
    (re.compile(r"<number>(?:, ?<number>)+"), "<number>"),  # one for each dimension
    # Names by Inductor, AOTAutograd, Thunder and nvFuser.
    (re.compile(r"\b(buf|arg|primals|tangents|tmp|tmp_acc|[tT])\d+(?=\b|_(?:arr|vec|l|g)\b)"), r"\1"),
)
_SIZES = re.compile(rf"[\[({{] ?-?{_SIZE}(?:[ ,+*/-]{{1,6}}{_SIZE})*,? ?[\])}}]")
_MAX_NESTED_SIZES = 4
_TELLING = re.compile(
    r"\berror: |^\s*target: |Error: |FAILED|[Ff]ailed|[Uu]nsupported|[Nn]ot (?:supported|implemented)"
)
# A compiler's first error, from which others follow.
_DIAGNOSTIC = re.compile(rf"^\S+{_POSITION}: (?:fatal )?error: (.*)", re.MULTILINE)
_ITEM = r"(?:'[^'{}]*'|<[^<>{}]*>|[A-Za-z_][\w.]*)"
_SETS = re.compile(rf"\{{({_ITEM}(?:, {_ITEM})+)\}}")  # their order varies between interpreters


def _telling_lines(text: str) -> str:
    """Return the first line of a long message, and the first that names an error, else the last.

    Long messages are a compiler's output or the dump of a graph."""
    lines = [line.strip() for line in text.splitlines()]
    accusing = [re.sub(r"^.*\berror: ", "error: ", line) for line in lines[1:] if _TELLING.search(line)] or lines[1:][
        -1:
    ]
    return "\n".join(lines[:1] + accusing[:1])


def _without_command(text: str) -> str:
    start = text.find(_COMMAND)
    end = max(text.rfind(ended) for ended in _HAS_ENDED)
    return text if not -1 < start < end else f"{text[:start]}{_COMMAND}<command>{text[end:]}"


def _ends(text: str, characters: int) -> str:
    """Cut the middle out of a text that is longer than `2 * characters`."""
    return text if len(text) <= 2 * characters else f"{text[:characters]}\n{text[-characters:]}"


def normalise(message: str) -> str:
    """Return the message without quoted context, numbers, addresses, paths, shapes, symbols and numbered names.

    A long message, or a compiler's output, is reduced to the first line and the first accusing line (`error: ...`).
    Digits inside a word stay: int8 is not int16.
    """
    message = _ends(without_context(_ends(message, _MAX_READ_CHARACTERS // 2)), _MAX_END_CHARACTERS)
    message = _without_command(message).strip()
    is_long = message.count("\n") >= _MAX_WHOLE_LINES or len(message) > _MAX_CHARACTERS
    if is_long or _DIAGNOSTIC.search(message):
        message = _telling_lines(message)
    message = _SETS.sub(lambda match: "{" + ", ".join(sorted(re.findall(_ITEM, match.group(1)))) + "}", message)
    for pattern, name in _REPLACEMENTS:
        message = pattern.sub(name, message)
    for _ in range(_MAX_NESTED_SIZES):
        message = _SIZES.sub("<shape>", message).replace("torch.Size(<shape>)", "<shape>")
    return message.strip()[:_MAX_CHARACTERS]  # cut last, when paths no longer affect the length


def words(message: str) -> list[str]:
    """Split the message into identifiers (with dots), placeholders and other single characters."""
    return re.findall(r"<\w+>|[A-Za-z_][\w.]*[\w]|[A-Za-z_]|\S", message)


def share_words(one: str, other: str) -> bool:
    """Tell whether half of the words of the shorter message are in the other, in their order."""
    shorter, longer = sorted((words(one), words(other)), key=len)
    blocks = SequenceMatcher(None, shorter, longer, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) * 2 >= len(shorter)


def shortened(text: str, characters: int) -> str:
    """Return the text in a line of at most so many characters, cut between words: no number is cut in two."""
    return shorten(text, characters, placeholder=" ...", break_on_hyphens=False)


def headline(message: str) -> str:
    """Return the first line of a message, cut after 300 characters; a line that ends with a colon has the next too.

    Flags of a command line are left out, and a compiler's first error follows.
    """
    message = message[:_MAX_END_CHARACTERS]
    lines = list(filter(None, map(str.strip, message.splitlines())))
    end = next((number for number, line in enumerate(lines) if not line.endswith(":")), len(lines))
    line = _FLAGS.sub(" ...", " ".join(lines[: min(end + 1, _MAX_HEADLINE_LINES)]))
    diagnostic = _DIAGNOSTIC.search(message)
    if diagnostic is not None and diagnostic[1] not in line:
        line = f"{line.removesuffix(':')}: {diagnostic[1]}"
    return line if len(line) <= _MAX_HEADLINE_CHARACTERS else f"{line[:_MAX_HEADLINE_CHARACTERS]} ..."
