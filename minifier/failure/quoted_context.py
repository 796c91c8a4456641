"""Removal of context that a message quotes: stack traces, graphs, listings of an IR, sources of kernels, tensors."""

from __future__ import annotations

import re

STACK = "<stack>"  # stands for a quoted stack behind other text of the same line

_FRAME = re.compile(r'^(?P<before>.*?)(?P<frame>File "[^"\n]*", line \d+(?:, in .*)?)$')
_CARETS = re.compile(r"^[\s^~,|]*[\^~][\s^~,|]*$")
_HEADS_A_STACK = re.compile(r"(?i)^\W*(?:.*\btraceback\b.*|.*\bstack\b.*|found from|called from|defined at)\W*$")
_MAX_HEADING_CHARACTERS = 80
_DIAGNOSTIC = re.compile(r":\d+(?::\d+)?: (?:fatal )?(?:error|warning|remark): ")
# Everything from here on is a dump, or advice that torch appends.
_BEGINS_A_TAIL = re.compile(
    r"^(?:While executing %|Original traceback:|from user code:|Set TORCHDYNAMO_VERBOSE=1|Set TORCH_LOGS=|"
    r"You can suppress this exception|Exception raised from .* \(most recent call first\):|"
    r"C\+\+ CapturedTraceback:|Stack dump:|// -----// IR Dump |PLEASE submit a bug report)"
)
_DUMPED_LINES = re.compile(
    r"""^\s*(?:
    %[\w.$\#:-]+(?:,\s*%[\w.$\#:-]+)*\s*=\s                 # an operation of MLIR, or of TorchScript
    |%\w+\s*(?::\s*\[?.*)?=\s*(?:placeholder|call_\w+|get_attr|output)\[  # a node of FX
    |%[\w.]+\s:\s.*=\s                                      # a value of TorchScript
    |graph\(.*\):$
    |"?(?:func\.func|func|builtin\.module|module|\w+\.executable|\w+\.variant)"?\b.*\{$
    |(?:\w+\.)?return\s%
    |\^bb\d+
    |\}
    |"[\w.]+"\(%
    |class\s\w+\((?:torch\.nn\.)?Module\):$|class\sModule:$
    |def\s(?:forward|\w*kernel\w*|triton_\w*|call)\(.*
    |\w+:\s".*"\s=\s                                        # GraphModule.print_readable
    |return\s\(?%?\w+,?.*\)$
    |\w+\s=\s.*;\s+\w+\s=\s.*None$
    |\#\s(?:File:|from\stvm\.)
    |@(?:[IRT]\.|triton\.|tl\.)\w+                          # TVMScript, Triton
    |(?:opcode\s+name\s+target|(?:placeholder|call_function|call_method|call_module|get_attr|output)\s{2,})
    |-{3,}[\s-]*$
    |(?:\S+:\s)?note:\s
    |\S*:\s+In\s(?:instantiation|function|member|lambda|static|substitution|constructor)|In\sfile\sincluded\sfrom
    |from\s\S+:\d+[,:]?$
    |\d*\s*\|                                               # a source line that gcc or clang quotes
    |\d+:\s(?:0x[0-9a-f]+|\w+$|.*::.*)                      # native frames of TVM, glog, c10
    |(?:frame\s)?\#\d+:?\s
    |args\[\d+\]:|kwargs:\s\{
    |\[bt\]\s
    )""",
    re.VERBOSE,
)
_KERNEL_PLACE = re.compile(r"^at \d+:\d+:\s*$")  # begins the source that Triton quotes, which carets end
_TENSOR = re.compile(
    r"(?<![.\w])(?:Parameter containing:\s*)?(?:Parameter\((?=\w*[tT]ensor\()|"
    r"\w*[tT]ensor\((?=\s*(?:[\[\d.+-]|nan|inf|True|False|_to)))"
)
_OPENS_A_DUMP = re.compile(r"\b[A-Z]\w*\($", re.MULTILINE)


def without_context(text: str) -> str:
    """Return the text without quoted context. Takes linear time."""
    text = _without_calls(text, _TENSOR, "<tensor>")
    lines = _without_calls(text, _OPENS_A_DUMP, "<dump>").splitlines()
    kept: list[str] = []
    frame_indent = -1  # of the frame whose source lines may follow
    in_kernel = False
    for i, line in enumerate(lines):
        content = line.strip()
        if _BEGINS_A_TAIL.match(content):
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
            if kept and _is_heading(kept[-1]):
                kept.pop()
        elif content and not _CARETS.match(line) and not -1 < frame_indent < indent:
            frame_indent = -1
            in_kernel = _KERNEL_PLACE.match(content) is not None
            above, below = (lines[i - 1] if i else ""), (lines[i + 1] if i + 1 < len(lines) else "")
            is_source = _DIAGNOSTIC.search(above) is not None and _CARETS.match(below) is not None
            if not (in_kernel or is_source or _DUMPED_LINES.match(line)):
                kept.append(line)
    return "\n".join(kept)


def _is_heading(line: str) -> bool:
    """Tell whether the line only announces a stack."""
    is_short = len(line) < _MAX_HEADING_CHARACTERS
    return is_short and not line.endswith(STACK) and _HEADS_A_STACK.match(line) is not None


def _without_calls(text: str, opening: re.Pattern[str], placeholder: str) -> str:
    """Replace each `Name(...)` that the pattern opens, up to its closing parenthesis, by the placeholder."""
    pieces = []
    end = 0
    for match in opening.finditer(text):
        if match.start() < end:  # inside one that is already replaced
            continue
        closing = _closing(text, match.end() - 1)
        pieces += [text[end : match.start()], placeholder]
        end = closing
        if closing == len(text):
            break
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
