"""What the failure needs besides its ops, in sentences for somebody who knows the repro and not this tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from minifier.data.case import Case
from minifier.data.case.graph import Node
from minifier.process.progress import counted
from minifier.repro.emit.footer import with_variables
from minifier.repro.report.markdown import code
from minifier.repro.report.outcome import Outcome

_MAX_SENTENCES = 12

# What was changed, for a row of a pass after which the failure was gone. The passes of ops have none: that no op can go
# is told elsewhere. `input` is an input of the repro, `op` a function that the graph calls.
_SENTENCES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "data": (
        (r"values of (?P<input>\w+)", "{input} with other values: several draws of each kind."),
        (r"number of (?P<input>\w+)", "{input} with zeros."),
    ),
    "layout": (
        (r"stride of (?P<input>\w+)", "{input} made contiguous."),
        (r"storage of (?P<input>\w+)", "The storage of {input} cut to what {input} itself takes, or to a smaller one."),
    ),
    "dtypes": ((r"(?P<name>\w+)", "torch's default dtype of the same kind in the place of {name}."),),
    "sizes": (
        (r"dimension (?P<text>\d+) of (?P<input>\w+)", "Dimension {text} of {input} cut to 1."),
        (r"compiled \w+", "Another size in the place of the one that the code was compiled with before."),
    ),
    "dims": (
        (r"dimension (?P<text>\d+) of (?P<input>\w+)", "{input} without its dimension {text}, of size 1."),
        (r"first of (?P<text>\d+) dimensions", "Inputs of {text} dimensions without the first one, of size 1."),
    ),
    "static": ((r".*", "Static sizes in the place of dynamic ones."),),
    "literals": ((r"(?P<name>.+) in (?P<op>\w+)", "A simpler number in the place of {name} in the call of {op}."),),
    "arguments": (
        (r"(?P<name>\w+=) of (?P<op>\w+)", "The call of {op} without its argument {name}."),
        (r"arguments of (?P<op>\w+)", "The call of {op} without its last positional arguments."),
    ),
    "operands": ((r"operand (?P<text>\d+) of (?P<op>\w+)", "Another operand {text} of the call of {op}."),),
    "items": ((r"item (?P<source>\w+)", "Fewer results of {source} read."),),
    "outputs": ((r"result (?P<op>\w+)", "The graph without the result of {op}."),),
    "config": ((r"(?P<name>.+)", "The setting {name} at its default."),),
    "switches": ((r"(?P<name>.+)", "The global switch {name} of torch at its default."),),
    "environment": ((r"(?P<name>.+)", "The environment variable {name} not set."),),
    "training": ((r".*", "A module in evaluation mode."),),
    "grad": (
        (r"requires_grad", "`requires_grad` of the inputs off."),
        (r"no_grad", "Grad mode on, without `torch.no_grad()`."),
        (
            r"requires_grad and no_grad",
            "`requires_grad` of the inputs off, and grad mode on, without `torch.no_grad()`.",
        ),
        (r"leaves", "Each input a leaf, not the result of an op."),
        (r"inference mode", "Inference mode off."),
        (r"inputs made in inference mode", "No input made in inference mode."),
    ),
    "ambient": (
        (r"autocast", "Autocast off."),
        (r"default dtype", "The default dtype float32."),
    ),
    "options": (
        (r"option (?P<name>.+)", "The backend without its option {name}."),
        (r"(?P<name>\w+=)", "`torch.compile` without the argument {name}."),
    ),
}
# The sentence for each measured need: of a size, of a dtype, of shared memory, of a first call with other inputs.
_OF_CASE = (
    (
        r"a size of exactly (\d+)(.*)",
        "A size other than {0}{1}: {0} alone fails, of its neighbours and multiples.",
    ),
    (r"a size of (\d+) or more(.*)", "A size below {0}{1}: {0} and larger sizes fail."),
    (r"a size that is a multiple of (\d+)(.*)", "A size that is no multiple of {0}{1}: {0} and two multiples fail."),
    (r"a size of (\d+)", "A size of 1 in the place of {0}."),
    (r"((?:bfloat|float|int|uint|complex)\d+)", "Each other dtype of its kind: only {0} fails."),
    (r"((?:bfloat|float|int|uint|complex)\d+(?: or \w+)+)", "Each dtype of its kind but {0}, which fail."),
    (r"inputs that share memory", "Inputs with the same values, each in memory of its own."),
    (r"code that was compiled with another size", "Code that was compiled for the sizes that it is called with."),
    (r"code that was compiled with other values", "Code whose first call has the values of the failing one."),
)
_DIMENSION = re.compile(r"Dimensions? (?P<number>\d+)[\d, and]* of (?P<input>.+) cut to 1\b.*")


def sentences_of_needs(outcome: Outcome) -> tuple[str, ...]:
    """Return the changes after which the failure was gone, sizes first."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None:
        return ()
    describe = _descriptions(outcome)
    rows = [need.partition(": ") for need in summary.needs]
    sentences = list(_merged(_of_row(family, name, describe) for family, _, name in rows))
    has_dimensions = any(map(_DIMENSION.fullmatch, sentences))
    needs = [need for need in case.needs if not (has_dimensions and need.startswith("a size of 2 or more"))]
    sentences = [*(_of_case(with_variables(need, outcome.names, code)) for need in needs), *sentences]
    found = tuple(dict.fromkeys(filter(None, sentences)))
    if len(found) <= _MAX_SENTENCES:
        return found
    more = len(found) - _MAX_SENTENCES
    return (*found[:_MAX_SENTENCES], f"{counted(more, 'more change')} of details.")


def _merged(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the sentences; those about dimensions of one input become one, at the place of the first."""
    matches = [(sentence, _DIMENSION.fullmatch(sentence)) for sentence in sentences]
    dimensions: dict[str, list[str]] = {}
    for _, match in matches:
        if match is not None:
            dimensions.setdefault(match["input"], []).append(match["number"])
    for sentence, match in matches:
        if match is None:
            yield sentence
        elif (numbers := dimensions.pop(match["input"], None)) is not None:
            *first, last = numbers
            said = f"Dimensions {', '.join(first)} and {last}" if first else f"Dimension {last}"
            yield f"{said} of {match['input']} cut to 1{', each alone' if first else ''}."


def sentence_of_calls_ahead(case: Case) -> str:
    """Say that the failure needs earlier calls; "" if it does not."""
    if not case.others:
        return ""
    graphs = counted(len(case.others), "other graph")
    return f"The backend must have compiled and called {graphs} before: alone, the failing call passes."


def _of_case(need: str) -> str:
    for pattern, sentence in _OF_CASE:
        if (match := re.fullmatch(pattern, need)) is not None:
            return sentence.format(*(group.replace(" or ", " and ") for group in match.groups()))
    return ""


def _of_row(family: str, name: str, describe: Mapping[str, Callable[[str], str]]) -> str:
    for pattern, sentence in _SENTENCES.get(family, ()):
        if (match := re.fullmatch(pattern, name)) is not None:
            return sentence.format(**{kind: describe[kind](text) for kind, text in match.groupdict().items()})
    return ""


def _descriptions(outcome: Outcome) -> dict[str, Callable[[str], str]]:
    """Return for each kind of word in a row's name how a reader of the repro knows it."""
    assert outcome.minimal is not None, "rows are of a reduced Case"
    ops = {node.name: node for node in _nodes(outcome.minimal)}
    names = outcome.names

    def function(name: str) -> str:
        return code(ops[name].short_target) if name in ops else code(names.get(name, name))

    def source(name: str) -> str:
        operand = next(ops[name].refs(), name) if name in ops else name
        return function(operand)

    def input_(name: str) -> str:
        return code(names.get(name, name))

    return {"input": input_, "op": function, "source": source, "name": code, "text": str}


def _nodes(case: Case) -> Iterator[Node]:
    for graph in case.graphs:
        yield from graph.ops
