"""The identity of a failure, and the criterion by which two failures are the same."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from minifier.data.failure.frames import (
    Frame,
    Link,
    frames_of,
    graph_break,
    is_owned,
    outermost,
    raising_frame,
    traced_line,
)
from minifier.data.failure.kinds import Aspect, Difference, Kind, Stage, with_names
from minifier.data.failure.normalise import STACK, headline, normalise, share_words, words
from minifier.data.failure.observed import quotes
from minifier.data.fields import Line, Text
from minifier.data.torch_names import BACKEND_FAILED

_MAX_FRAMES = 3
# What glibc's allocator says of the same damage depends on the chunks that happen to lie behind it.
_OF_HEAP = (
    r"(?:free|malloc|calloc|realloc|malloc_consolidate|munmap_chunk|mremap_chunk)\(\):\s.*"
    r"|double\sfree\sor\scorruption.*|corrupted\s(?:size|double-linked)\s.*|.*\bmalloc(?:\.c:\d+.*)?\s[Aa]ssertion\s.*"
)
DAMAGED_HEAP = "damaged heap"  # the identity of a death of which the allocator tells
_MEMORY_SIGNALS = {"SIGABRT", "SIGSEGV", "SIGBUS"}  # which of them ends a process with a damaged heap is chance
# The first line of a diagnostic: of MLIR, LLVM, gcc; of libc, libstdc++, glibc's allocator; of glog, Rust, sanitizers.
_DIAGNOSTIC = re.compile(
    rf"""^(?:
    (?:\S+:\d+(?::\d+)?|<unknown>:\d+|loc\(.*\)):\s(?:fatal\s)?error:\s.*
    |LLVM\sERROR:\s.*
    |(?P<heap>{_OF_HEAP})
    |.*\bAssertion\s[`'"].*['"]\sfailed\.?.*
    |terminate\scalled\s.*(?:\n\s+what\(\):.*)?
    |\*\*\*\sstack\ssmashing\sdetected\s.*
    |F\d{{4,8}}\s[\d:.]+\s.*Check\sfailed:.*
    |thread\s'.*'\spanicked\sat\s.*
    |==\d+==\s?ERROR:\s.*
    )$""",
    re.VERBOSE | re.MULTILINE,
)
# Other code writes in its own words why it ends the process: the last line with one of these ahead of an abort counts.
_REASON = re.compile(
    r"^(?!Fatal Python error).*\b(?:assert\w*|check\w*|fatal|panic\w*|abort\w*|unreachable|fail\w*|violat\w*|invalid"
    r"|unsupported|not (?:supported|implemented))\b.*$",
    re.IGNORECASE | re.MULTILINE,
)
_ABORTED = "SIGABRT("  # begins the stack of an abort
# A frame of torch's handler of fatal signals.
_FRAME = re.compile(r"^\s*frame #\d+: (?P<symbol>.+) \+ 0x[0-9a-f]+ \(0x[0-9a-f]+ in (?P<library>[^)\n]*)\)$")
_STACK = re.compile(
    r"^SIG[A-Z]+\(\d+\), PID: \d+, Thread \d+: *\n(?P<frames>(?:\s*(?:frame #|<omitting).*\n?)*)", re.MULTILINE
)
_PLUMBING = ("c10::FatalSignalHandler", "gsignal", "raise", "abort", "__GI_", "__assert_fail", "pthread_kill")
_LIBRARIES_OF_LIBC = ("libc.so", "libpthread.so", "libc-", "libstdc++.so", "ld-linux")

# Frames of this tool, which calls the backend, with their source lines.
_TOOL = re.escape(str(Path(__file__).parents[2]) + os.sep)
_OWN_FRAMES = re.compile(rf'  File "{_TOOL}[^"\n]*", line \d+, in \w+\n(?:    .*\n)*')
# Messages of torch's allocators and of C++ when memory is exhausted.
_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator: |can't allocate memory|not enough memory: you tried to allocate|std::bad_alloc"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NO_NODES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The properties that all observations of a failure share.

    types: the chain of exception types, outermost first, without wrappers that quote a later exception.
    raising: the innermost frame outside generated code.
    site: the backend's innermost frame.
    message: the normalised message.
    names: words of the message that are names of graph nodes, and may differ.
    ops: the ops of these nodes. A node without a name of its own is named after its op.
    native: the normalised diagnostic or function of native code (`native_identity`); "" if unknown.
    forms: other failures of the same graph that count as this failure. A race may raise different errors.
    aspects: all aspects of a wrong result. The message is the aspect that candidates must show. A repro's assertion may
    name any of them.
    any_message: the message varies from graph to graph, or by chance: one with half of its words is the same.
    traced: the line of a package that Dynamo was tracing (`traced_line`); "" for a line of the script.
    graph_break: what Dynamo does not support, as the function `graph_break` reads it; "" for another failure.
    at_traced: the traced line and the graph break must agree too, as in reductions of scripts.
    """

    stage: Stage
    kind: Kind
    types: tuple[Line, ...] = ()
    raising: Frame | None = None
    site: Frame | None = None
    message: Text = ""
    names: tuple[Text, ...] = ()
    ops: tuple[Text, ...] = ()
    native: Text = ""
    forms: tuple[Fingerprint, ...] = ()
    aspects: tuple[Line, ...] = ()
    any_message: bool = False
    traced: Text = ""
    graph_break: Text = ""
    at_traced: bool = False

    @property
    def where(self) -> str:
        """The backend's innermost function; "" if none of its frames is known."""
        return f"{self.site.module}.{self.site.function}" if self.site else ""

    @property
    def exits_with_0(self) -> bool:
        """Whether the failure is an early end of the process with exit status 0, which no exit status shows."""
        return (self.kind, self.message) == (Kind.EXIT, "exit status 0")

    def sentence(self, shown: str = "") -> str:
        """Return a line for the user, with the message `shown`, by default the normalised message."""
        where = f" in {self.where}" if self.where else ""
        subject = self.types[0] if self.types else self.kind.value
        lines = self.message.splitlines()
        cause = f" (because of {self.types[-1]}: {lines[-1]})" if len(self.types) > 1 and lines else ""
        said = headline(shown or self.message) or ("no message" if self.kind is Kind.EXCEPTION else "")
        return f"{subject}{where} ({self.stage.value}): {said}{cause}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An observation of a failure: its fingerprint, and its text for the user.

    hints: groups of node names that the error mentions, best first.
    differences: the result of a comparison with eager.
    written: the diagnostic that native code wrote to stderr, or its innermost functions.
    """

    fingerprint: Fingerprint
    type: Line
    message: Text
    traceback: Text = field(default="", repr=False)
    hints: tuple[tuple[Text, ...], ...] = field(default=(), repr=False)
    differences: tuple[Difference, ...] = field(default=(), repr=False)
    written: Text = field(default="", repr=False)

    def __str__(self) -> str:
        return self.sentence

    @property
    def main_difference(self) -> Difference | None:
        """The difference that the fingerprint is about, else the first."""
        about = (each for each in self.differences if each.aspect.value == self.fingerprint.message)
        return next(about, self.differences[0] if self.differences else None)

    @property
    def missing_exception(self) -> Difference | None:
        """The difference that says that eager raises, where the compiled code returns, or ends the process."""
        return next((each for each in self.differences if each.aspect is Aspect.NO_EXCEPTION), None)

    @property
    def sentence(self) -> str:
        """The fingerprint's sentence, with the message of the exception or of the comparison."""
        if self.differences:
            return f"{self.fingerprint.sentence()}: {self.message}"
        return self.fingerprint.sentence(self.message if self.fingerprint.kind is Kind.EXCEPTION else "")

    def named(self, names: Mapping[str, str]) -> Failure:
        """Return the failure of a comparison with these names in the place of placeholders' names.

        Other failures keep the backend's words.
        """
        if not self.differences:
            return self
        message, text = with_names(self.message, names), with_names(self.traceback, names)
        differences = tuple(difference.named(names) for difference in self.differences)
        return replace(self, message=message, traceback=text, differences=differences)

    @property
    def line(self) -> str:
        """The failure as in the last line of a traceback."""
        first = headline(self.message)
        return f"{self.type}: {first}" if first else self.type


def _is_wrapper(link: Link) -> bool:
    return BACKEND_FAILED in (link["type"], *link["bases"])


def without_wrappers(links: Sequence[Link]) -> list[Link]:
    """Return the chain without exceptions that only wrap another exception.

    Wrappers are Dynamo's for a backend's exception, and every exception whose message quotes a later exception."""
    inner = [link for link in links if not _is_wrapper(link)] or list(links)
    return [
        link
        for i, link in enumerate(inner)
        if not any(quotes(link["message"], later["type"], later["message"]) for later in inner[i + 1 :])
    ]


def was_wrapped(links: Sequence[Link]) -> bool:
    """Tell whether Dynamo reported that a backend raised this while compiling."""
    return any(_is_wrapper(link) for link in links)


def aborted_without_memory(sought: Fingerprint | None, output: str) -> bool:
    """Tell whether native code aborted for the lack of memory that is sought: its diagnostic names an allocation."""
    is_sought = sought is not None and sought.kind is Kind.OUT_OF_MEMORY
    return is_sought and _NO_MEMORY.search(diagnostic(output)) is not None


def _is_out_of_memory(link: Link) -> bool:
    kinds = (link["type"], *link["bases"])
    if "MemoryError" in kinds or any(k.startswith("torch.") and k.endswith(".OutOfMemoryError") for k in kinds):
        return True
    return "RuntimeError" in kinds and _NO_MEMORY.search(link["message"]) is not None


def of_exception(stage: Stage, links: Sequence[Link], nodes: Mapping[str, str] = NO_NODES) -> Fingerprint:
    """Return the fingerprint of an exception from `observed.describe`; `nodes` are the graph's `free_names`."""
    if (status := links[0].get("exit status")) is not None:  # other processes only see the status
        return Fingerprint(stage, Kind.EXIT, message=f"exit status {status}")
    chain = without_wrappers(links)
    types = [link["type"] for link in chain]
    frames = frames_of(chain) or frames_of(links)
    own = [frame for frame in frames if is_owned(frame.module)]
    # Merge equal neighbours: a compiler may wrap an error again at each level.
    causes = [(link["type"], normalise(link["message"])) for link in chain]
    distinct = [cause for i, cause in enumerate(causes) if i == 0 or cause != causes[i - 1]]
    message = "\n".join(text for _, text in distinct)
    if types[-1] == "RecursionError":  # the innermost frame is random, the outermost is not
        return Fingerprint(stage, Kind.EXCEPTION, ("RecursionError",), None, outermost(own))
    if _is_out_of_memory(chain[0]) or _is_out_of_memory(chain[-1]):
        # The refused allocation, its type and its text are random; the function that needs the memory is not.
        # What handles the first refusal may be refused memory as well: that exception comes from elsewhere.
        sites = (outermost([frame for frame in frames_of([link]) if is_owned(frame.module)]) for link in chain)
        return Fingerprint(stage, Kind.OUT_OF_MEMORY, site=next(filter(None, sites), None), message="no more memory")
    names, ops = _named(message, "\n".join(link["message"] for link in chain), nodes)
    return Fingerprint(
        stage=stage,
        kind=Kind.EXCEPTION,
        types=tuple(kind for kind, _ in distinct),
        raising=raising_frame(chain if frames_of(chain) else links),
        site=own[-1] if own else None,
        message=message,
        names=names,
        ops=ops,
        traced=traced_line(links),
        graph_break=graph_break(links),
    )


def of_line(stage: Stage, line: str, nodes: Mapping[str, str] = NO_NODES) -> Fingerprint:
    """Return the fingerprint of a fallback that a backend logs with this line; `nodes` are the graph's `free_names`."""
    message = normalise(line)
    names, ops = _named(message, line, nodes)
    return Fingerprint(stage, Kind.SILENT_FALLBACK, message=message, names=names, ops=ops)


def _named(message: str, text: str, nodes: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the normalised message that are names of nodes, and the ops of those that the text names."""
    bare = {name: re.sub(r"_\d+$", "", name) for name in nodes}
    names = set(words(message)).intersection(bare.values())
    said = set(_IDENTIFIER.findall(text)) if names else set()
    ops = {nodes[name] for name in said.intersection(nodes) if bare[name] in names}
    return tuple(sorted(names)), tuple(sorted(filter(None, ops)))


def failure_of(stage: Stage, links: Sequence[Link], traceback: str, nodes: Mapping[str, str] = NO_NODES) -> Failure:
    """Return the failure of an exception, without its wrappers."""
    chain = without_wrappers(links)
    return Failure(
        fingerprint=of_exception(stage, links, nodes),
        type=chain[0]["type"],
        message=chain[0]["message"],
        traceback=_OWN_FRAMES.sub("", traceback),
    )


def with_native(failure: Failure, output: str) -> Failure:
    """Add the native diagnostic or stack in the process's output to an exception or a death."""
    if failure.fingerprint.kind not in (Kind.EXCEPTION, Kind.SIGNAL, Kind.EXIT):
        return failure
    written = diagnostic(output) or "\n".join(native_frames(output))
    fingerprint = replace(failure.fingerprint, native=native_identity(output))
    return replace(failure, fingerprint=fingerprint, written=written)


def _same_message(sought: Fingerprint, seen: Fingerprint, renamed: Mapping[str, str] | None) -> bool:
    """Compare word by word, where a node's name matches any other node's, and its own op.

    `renamed` is given for a retraced graph. There a node's name matches any identifier. A variable matches the name
    of its node."""
    if sought.message == seen.message:
        return True
    expected, actual = words(sought.message), words(seen.message)
    return len(expected) == len(actual) and all(
        a == b
        or {a, b} == {STACK, "None"}  # a graph that was built from a Case may lack the stacks of its nodes
        or (a in sought.names and b in (*seen.names, *sought.ops))
        or (a in seen.ops and b in seen.names)
        or (renamed is not None and _is_renamed(a, b, sought.names, renamed))
        for a, b in zip(expected, actual, strict=True)
    )


def _is_renamed(word: str, other: str, names: Collection[str], renamed: Mapping[str, str]) -> bool:
    """Tell whether the other word can stand for this node's name in a retraced graph."""
    is_any_name = word in names and _IDENTIFIER.fullmatch(other) is not None
    return is_any_name or normalise(renamed.get(other, "")) == word


def same(sought: Fingerprint, seen: Fingerprint, *, renamed: Mapping[str, str] | None = None) -> bool:
    """Tell whether both are the same failure.

    `renamed` is given where the second graph's node names are unknown: it maps the names of variables, which Dynamo
    takes for nodes, to the names that these nodes have in the first graph.
    """
    return any(_same(form, seen, renamed) for form in (sought, *sought.forms))


def _same(sought: Fingerprint, seen: Fingerprint, renamed: Mapping[str, str] | None) -> bool:
    if (sought.stage, sought.kind, sought.raising, sought.site) != (seen.stage, seen.kind, seen.raising, seen.site):
        return False
    if sought.kind is Kind.SIGNAL and DAMAGED_HEAP in (sought.native, seen.native):
        return _has_same_damage(sought, seen)
    if sought.native and seen.native and sought.native != seen.native:
        return False
    if sought.at_traced and (sought.traced, sought.graph_break) != (seen.traced, seen.graph_break):
        return False
    if sought.types != seen.types:
        return False
    alike = sought.any_message and share_words(sought.message, seen.message)
    return alike or _same_message(sought, seen, renamed)


def _has_same_damage(sought: Fingerprint, seen: Fingerprint) -> bool:
    """Tell whether both deaths can be those of one damaged heap, where glibc's allocator told of one of them.

    A heap that is damaged in the same way may end the process elsewhere, by another signal, and without a word.
    """
    unnamed = ("", DAMAGED_HEAP)
    return (
        sought.native in unnamed
        and (seen.native in unnamed or seen.message != "SIGABRT")
        and _MEMORY_SIGNALS.issuperset((sought.message, seen.message))
    )


def diagnostic(output: str) -> str:
    """Return the first diagnostic of native code in the output, else the last reason ahead of an abort; or ""."""
    if found := _DIAGNOSTIC.search(output):
        return found.group()
    before, aborted, _ = output.partition(_ABORTED)
    return _REASON.findall(before)[-1].strip() if aborted and _REASON.search(before) else ""


def native_frames(output: str) -> tuple[str, ...]:
    """Return the innermost native functions at a fatal signal, innermost first, without libc's and Python's own.

    A function without a name is known by its library. Empty if torch's handler wrote no stack."""
    stack = _STACK.search(output)
    frames: list[str] = []
    for line in stack["frames"].splitlines() if stack else ():
        found = _FRAME.match(line)
        if found is None:  # <omitting python frames>
            break
        library = PurePosixPath(found["library"]).name
        if library.startswith(_LIBRARIES_OF_LIBC) or found["symbol"].startswith(_PLUMBING):
            continue
        symbol = re.split(r"\((?!anonymous namespace\))", found["symbol"])[0]  # without its arguments
        frames.append(library if symbol == "<unknown function>" else symbol)
    return tuple(frames[:_MAX_FRAMES])


def native_identity(output: str) -> str:
    """Return the normalised diagnostic, else the innermost native function; "" if the output has neither."""
    if (found := _DIAGNOSTIC.search(output)) and found["heap"]:
        return DAMAGED_HEAP
    return normalise(diagnostic(output)) or next(iter(native_frames(output)), "")
