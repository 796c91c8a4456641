"""What the failure needs besides its ops, in sentences for somebody who knows the repro and not this tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from minifier.case import Case
from minifier.case.graph import Node
from minifier.process.progress import counted
from minifier.report.changed_inputs import free_aspects
from minifier.report.inline import code
from minifier.report.outcome import Outcome

_MAX_SENTENCES = 12
_ASPECTS = {"size": "sizes", "dtype": "dtypes", "stride": "strides", "value": "values"}

# The sentence for a row of a pass that cannot be taken without losing the failure. The passes of ops have none: that no
# op can go is told elsewhere. `input` is an input of the repro, `op` a function that the graph calls.
_SENTENCES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "data": ((r"values of (?P<input>\w+)", "The values of {input} matter: with others the failure is gone."),),
    "layout": (
        (r"stride of (?P<input>\w+)", "{input} must not be contiguous."),
        (r"storage of (?P<input>\w+)", "The storage of {input} must be larger than {input} itself."),
    ),
    "dtypes": ((r"(?P<name>\w+)", "The dtype must be {name}."),),
    "sizes": (
        (r"dimension (?P<text>\d+) of (?P<input>\w+)", "Dimension {text} of {input} must not be 1."),
        (r"compiled \w+", "The code must have been compiled with another size before."),
    ),
    "dims": (
        (r"dimension (?P<text>\d+) of (?P<input>\w+)", "{input} must have its dimension {text}, of size 1."),
        (r"first of (?P<text>\d+) dimensions", "An input must have {text} dimensions."),
    ),
    "static": ((r".*", "Sizes must be dynamic."),),
    "literals": ((r"(?P<name>.+) in (?P<op>\w+)", "The number {name} in the call of {op} cannot be simpler."),),
    "arguments": (
        (r"(?P<name>\w+=) of (?P<op>\w+)", "The call of {op} needs its argument {name}."),
        (r"arguments of (?P<op>\w+)", "The call of {op} needs its positional arguments."),
    ),
    "operands": ((r"operand (?P<text>\d+) of (?P<op>\w+)", "The call of {op} needs its operand {text}."),),
    "items": ((r"item (?P<source>\w+)", "More than one result of {source} must be read."),),
    "outputs": ((r"result (?P<op>\w+)", "The graph must return the result of {op} as well."),),
    "config": ((r"(?P<name>.+)", "The setting {name} must be as in the repro."),),
    "switches": ((r"(?P<name>.+)", "The global switch {name} of torch must be as in the repro."),),
    "environment": ((r"(?P<name>.+)", "The environment variable {name} must be set as in the repro."),),
    "training": ((r".*", "A module must be in training mode."),),
    "grad": (
        (r"requires_grad and grad mode", "Grad mode and `requires_grad` of the inputs must be as in the repro."),
        (r"leaves", "An input must be the result of an op, not a leaf."),
        (r"inference mode", "Inference mode must be on."),
        (r"inputs made in inference mode", "An input must be made in inference mode."),
    ),
    "ambient": (
        (r"autocast", "Autocast must be on."),
        (r"default dtype", "The default dtype must be as in the repro."),
    ),
    "options": (
        (r"option (?P<name>.+)", "The backend's option {name} must be as in the repro."),
        (r"(?P<name>\w+=)", "The argument {name} of `torch.compile` must be as in the repro."),
    ),
}
# Of the needs that the reduction found out: sizes, and inputs in relation to each other.
_OF_CASE = (
    (r"a size of exactly (\d+)", "A size must be exactly {}: a smaller and a larger one pass."),
    (r"a size of (\d+) or more", "A size must be {} or more."),
    (r"a size that is a multiple of (\d+)", "A size must be a multiple of {}."),
    (r"a size of (\d+)", "A size must be {}."),
    (r"inputs that share memory", "Inputs must share memory."),
)
_DIMENSION = re.compile(r"Dimensions? (?P<number>\d+)[\d, and]* of (?P<input>.+) must not be 1\.")
_LARGER_THAN_1 = "A size must be 2 or more."


def sentences_of_needs(outcome: Outcome) -> tuple[str, ...]:
    """Return the sentences about what cannot be changed without losing the failure, sizes first."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None:
        return ()
    sentences = [_of_case(need) for need in case.needs]
    describe = _descriptions(outcome)
    rows = (need.partition(": ") for need in summary.needs)
    sentences += _merged(_of_row(family, name, describe) for family, _, name in rows)
    if any(_DIMENSION.fullmatch(sentence) for sentence in sentences):
        sentences = [sentence for sentence in sentences if sentence != _LARGER_THAN_1]
    found = tuple(dict.fromkeys(filter(None, sentences)))
    if len(found) <= _MAX_SENTENCES:
        return found
    more = len(found) - _MAX_SENTENCES
    return (*found[:_MAX_SENTENCES], f"{more} more {'detail' if more == 1 else 'details'} must stay as in the repro.")


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
            yield f"{said} of {match['input']} must not be 1."


def sentence_of_freedom(outcome: Outcome) -> str:
    """Say which aspects of the inputs do not matter; "" if none is known."""
    case, summary = outcome.minimal, outcome.summary
    if case is None or summary is None or summary.unfinished or case.needs:
        return ""
    free = [_ASPECTS[aspect] for aspect in free_aspects(outcome.case, case)]
    if not free:
        return ""
    named = free[0] if len(free) == 1 else f"{', '.join(free[:-1])} and {free[-1]}"
    return f"The {named} of the inputs do not matter: they were changed, and the failure stayed."


def sentence_of_calls_ahead(case: Case) -> str:
    """Say that the failure needs earlier calls; "" if it does not."""
    if not case.others:
        return ""
    graphs = counted(len(case.others), "other graph")
    return f"The backend must have compiled and called {graphs} before: alone, the failing call passes."


def _of_case(need: str) -> str:
    for pattern, sentence in _OF_CASE:
        if (match := re.fullmatch(pattern, need)) is not None:
            return sentence.format(*match.groups())
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
