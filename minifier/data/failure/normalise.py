"""Remove from a message what varies between graphs: numbers, names, and context that it quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from textwrap import shorten

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
# Control characters, marks that order or break text unseen, and what is no UTF-8. Joiners and spaces of scripts stay.
_HIDING = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
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
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+\b| 0x[0-9a-fA-F]{9,}\b")  # each process has others
_NO_CODE = r"(?<!\b[Ee]rror[ =#])(?<!\b[Cc]ode[ =#])(?<!\bstatus )"  # a number that does not identify the error
_POSITION = r"(?::\d+(?::\d+)?|\(\d+\))"
# What replaces what, by the name of the rule, in this order.
_REPLACEMENTS = {
    "times": (re.compile(r"(?<=\d)T(?=\d\d:\d\d)"), " "),  # 2026-11-27T07:51:09: a T would make a word of the hour
    "addresses": (re.compile(rf"{_NO_CODE}0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{{9,}}\b"), "<address>"),
    "places": (re.compile(rf"^\S+{_POSITION}: (?=(?:fatal )?error: )", re.MULTILINE), ""),
    "paths": (re.compile(r"(?<![\w.+@~/-])[\w.+@~-]*(?:/[\w.+@-]+){2,}"), "<path>"),
    "kernels": (
        re.compile(r"\b(?:triton_(?:(?:_|fused|poi|per|red|tem|for|mm)\w*)?|cpp_(?:vec_)?fused\w*|tvmgen_\w+)\b"),
        "<kernel>",
    ),
    "hashes": (re.compile(r"(?<![a-z0-9])c[a-z2-7]{40,}(?![a-z0-9])"), "<hash>"),
    # ONNX Runtime, OpenVINO and TensorRT print names of nodes so.
    "quoted names": (re.compile(r"(\b[Nn]ame: ?|\bfriendly_name |\b(?:layer|node) with name )'[^'\n]*'"), r"\1<name>"),
    "nodes in brackets": (re.compile(r"(\b[Nn]ode )(?:\([^()\n]*\)|\{[^{}\n]*\})"), r"\1<name>"),
    "validated nodes": (re.compile(r"(While validating node '[\w:]+) [^'\n]*'"), r"\1 <name>'"),
    "sizes in types": (re.compile(r"(?<=<)(?:(?:\d+|\?)x)+(?=[a-z!])"), ""),  # tensor<2x3xf32>
    "typed sizes": (re.compile(r"(?<![\w.])Dim\((\d+)\)"), r"\1"),  # [Dim(2), Dim(6)] of MAX
    "symbols": (re.compile(_BARE_SYMBOL), "<number>"),
    "FX nodes": (re.compile(r"(?<!\w)%(?:[A-Za-z_]\w*|\d+)(?:#\d+)?"), "%<node>"),  # and values of MLIR
    "numbered names": (re.compile(r"(?<=[A-Za-z])_\d+\b"), ""),  # add_12 is add
    "equal numbers": (re.compile(r"(?<![\w.])(\d+)==\1(?![\w.])"), "<same>==<same>"),  # size 5==5, stride 1==32
    "bytes": (re.compile(r"\b\d+(?:\.\d+)?(?:[KMGT]|[kKMGT]?B| ?[KMGT]i?B)\b"), "<bytes>"),  # in any unit
    "numbers": (re.compile(rf"{_NO_CODE}\b\d[\d.]*(?:e[+-]?\d+)?\b"), "<number>"),
    "negative numbers": (re.compile(r"(?<=[ (=,:])-<number>"), "<number>"),
    "lists of numbers": (re.compile(r"<number>(?:, ?<number>)+"), "<number>"),  # one for each dimension
    # Names by Inductor, AOTAutograd, Thunder and nvFuser.
    "buffers": (re.compile(r"\b(buf|arg|primals|tangents|tmp|tmp_acc|[tT])\d+(?=\b|_(?:arr|vec|l|g)\b)"), r"\1"),
}
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
    accusing = [re.sub(r"^.*\berror: ", "error: ", line) for line in lines[1:] if _TELLING.search(line)]
    return "\n".join(lines[:1] + (accusing or lines[1:][-1:])[:1])


def _ends(text: str, characters: int) -> str:
    """Cut the middle out of a text that is longer than `2 * characters`."""
    return text if len(text) <= 2 * characters else f"{text[:characters]}\n{text[-characters:]}"


def normalise(message: str) -> str:
    """Return the message without quoted context, numbers, addresses, paths, shapes, symbols and numbered names.

    A long message, or a compiler's output, is reduced to the first line and the first accusing line (`error: ...`).
    Digits inside a word stay: int8 is not int16.
    """
    message = _ends(without_colours(message), _MAX_READ_CHARACTERS // 2)
    message = _ends(without_context(message), _MAX_END_CHARACTERS)
    start, end = message.find(_COMMAND), max(message.rfind(ended) for ended in _HAS_ENDED)
    message = (f"{message[:start]}{_COMMAND}<command>{message[end:]}" if -1 < start < end else message).strip()
    is_long = message.count("\n") >= _MAX_WHOLE_LINES or len(message) > _MAX_CHARACTERS
    if is_long or _DIAGNOSTIC.search(message):
        message = _telling_lines(message)
    message = _SETS.sub(lambda match: "{" + ", ".join(sorted(re.findall(_ITEM, match.group(1)))) + "}", message)
    for pattern, name in _REPLACEMENTS.values():
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


def printable(text: str, kept: str = "\n\t") -> str:
    """Return the text without colours, and with escapes for what could move a terminal's cursor or hide other text.

    The `kept` control characters stay.
    """
    return _HIDING.sub(
        lambda found: found[0] if found[0] in kept else found[0].encode("unicode_escape").decode(),
        without_colours(text),
    )


def without_colours(text: str) -> str:
    """Return the text without the sequences that set a terminal's colours."""
    return _COLOUR.sub("", text)


def shortened(text: str, characters: int) -> str:
    """Return the text in a line of at most so many characters, cut between words: no number is cut in two."""
    return shorten(text, characters, placeholder=" ...", break_on_hyphens=False)


def headline(message: str) -> str:
    """Return the first line of a message, cut after 300 characters; a line that ends with a colon has the next too.

    Flags of a command line and addresses of objects are left out, and a compiler's first error follows.
    """
    message = message[:_MAX_END_CHARACTERS]
    lines = list(filter(None, map(str.strip, message.splitlines())))
    end = next((number for number, line in enumerate(lines) if not line.endswith(":")), len(lines))
    line = _ADDRESS.sub("", _FLAGS.sub(" ...", " ".join(lines[: min(end + 1, _MAX_HEADLINE_LINES)])))
    diagnostic = _DIAGNOSTIC.search(message)
    if diagnostic is not None and diagnostic[1] not in line:
        line = f"{line.removesuffix(':')}: {diagnostic[1]}"
    return line if len(line) <= _MAX_HEADLINE_CHARACTERS else f"{line[:_MAX_HEADLINE_CHARACTERS]} ..."


STACK = "<stack>"  # stands for a quoted stack behind other text of the same line

_FRAME = re.compile(r'^(?P<before>.*?)(?P<frame>File "[^"\n]*", line \d+(?:, in .*)?)$')
_CARETS = re.compile(r"^[\s^~,|]*[\^~][\s^~,|]*$")
_HEADS_A_STACK = re.compile(r"(?i)^\W*(?:.*\btraceback\b.*|.*\bstack\b.*|found from|called from|defined at)\W*$")
_MAX_HEADING_CHARACTERS = 80
_DIAGNOSTIC_LINE = re.compile(r":\d+(?::\d+)?: (?:fatal )?(?:error|warning|remark): ")
# Everything from such a line on is a dump, or advice that torch appends.
_TAILS = {
    "executed node": r"While executing %",
    "user's stack": r"from user code:",
    "Dynamo's advice": r"Set TORCHDYNAMO_VERBOSE=1",
    "Dynamo's other advice": r"You can suppress this exception",
    "C++ stack": r"Exception raised from .* \(most recent call first\):",
    "dump of MLIR": r"// -----// IR Dump ",
}
# A line like these is part of a dump.
_DUMPED_LINES = {
    "node of FX": r"%\w+\s*(?::\s*\[?.*)?=\s*(?:placeholder|call_\w+|get_attr|output)\[",
    "head of a graph": r"graph\(.*\):$",
    "block of MLIR": r"\^bb\d+",
    "end of a block": r"\}",
    "GraphModule": r"class\s\w+\((?:torch\.nn\.)?Module\):$|class\sModule:$",
    "return": r"return\s\(?%?\w+,?.*\)$",
    "comment": r"#\s(?:File:|from\stvm\.)",
    "TVMScript or Triton": r"@(?:[IRT]\.|triton\.|tl\.)\w+",
    "compiler's note": r"(?:\S+:\s)?note:\s",
    "native frame": r"\d+:\s(?:0x[0-9a-f]+|\w+$|.*::.*)",  # of TVM, glog, c10
    "lowered op": r"args\[\d+\]:|kwargs:\s\{",
}
_KERNEL_PLACE = re.compile(r"^at \d+:\d+:\s*$")  # begins the source that Triton quotes, which carets end
_TENSOR = re.compile(
    r"(?<![.\w])(?:Parameter containing:\s*)?(?:Parameter\((?=\w*[tT]ensor\()|"
    r"\w*[tT]ensor\((?=\s*(?:[\[\d.+-]|nan|inf|True|False|_to)))"
)
_OPENS_A_DUMP = re.compile(r"\b[A-Z]\w*\($", re.MULTILINE)


def _any_of(patterns: Mapping[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns.values()))


def without_context(text: str) -> str:
    """Return the text without quoted context. Takes linear time."""
    begins_a_tail, is_dumped = _any_of(_TAILS), _any_of(_DUMPED_LINES)
    text = _without_calls(text, _TENSOR, "<tensor>")
    lines = _without_calls(text, _OPENS_A_DUMP, "<dump>").splitlines()
    kept: list[str] = []
    frame_indent = -1  # of the frame whose source lines may follow
    in_kernel = False
    for i, line in enumerate(lines):
        content = line.strip()
        if begins_a_tail.match(content):
            break
        if in_kernel:
            in_kernel = _CARETS.match(line) is None
            continue
        indent = len(line) - len(line.lstrip())
        frame = _FRAME.match(line.rstrip(" ,\t"))
        if frame is not None and frame["before"].strip():
            frame_indent = indent
            kept.append(f"{frame['before'].rstrip()} {STACK}")
        elif frame is not None or content == "None":  # None stands for a stack that is not known
            frame_indent = indent if frame is not None else -1
            heading = kept[-1] if kept else ""
            is_short = len(heading) < _MAX_HEADING_CHARACTERS and not heading.endswith(STACK)
            if is_short and _HEADS_A_STACK.match(heading):
                kept.pop()
        elif content and not _CARETS.match(line) and not -1 < frame_indent < indent:
            frame_indent = -1
            in_kernel = _KERNEL_PLACE.match(content) is not None
            above, below = (lines[i - 1] if i else ""), (lines[i + 1] if i + 1 < len(lines) else "")
            is_source = _DIAGNOSTIC_LINE.search(above) is not None and _CARETS.match(below) is not None
            if not (in_kernel or is_source or is_dumped.match(content)):
                kept.append(line)
    return "\n".join(kept)


def _without_calls(text: str, opening: re.Pattern[str], placeholder: str) -> str:
    """Replace each `Name(...)` that the pattern opens, up to its closing parenthesis, by the placeholder."""
    pieces = []
    end = 0
    for match in opening.finditer(text):
        if match.start() < end:  # inside one that is already replaced
            continue
        pieces += [text[end : match.start()], placeholder]
        end = _closing(text, match.end() - 1)
    return "".join((*pieces, text[end:]))


_PARENTHESES = re.compile(r"[()]")


def _closing(text: str, start: int) -> int:
    """Return the index after the parenthesis that closes the opening at `start`, or the text's length."""
    depth = 0
    for match in _PARENTHESES.finditer(text, start):
        depth += 1 if match.group() == "(" else -1
        if not depth:
            return match.end()
    return len(text)
