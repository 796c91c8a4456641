"""The schema of a Case: what each field may hold beyond its type.

minifier.case.serial applies it, and minifier.case.relations, to everything that it reads.
"""

from __future__ import annotations

import math

from minifier.case import texts
from minifier.case.case import BackendReference, Call, Script, State
from minifier.case.checks import Check, anything, between, each, fields, mapping, number, one_of, plain, string
from minifier.case.graph import OPS, Graph, Module, Node, Ref
from minifier.case.inputs import Drawn, Recorded, ScalarInput, Stored, TensorInput
from minifier.case.relations import MAX_SIZE
from minifier.case.values import Imported, Opaque, Scalar, SourceExpression, Symbol, TensorMeta
from minifier.failure import Failure, Fingerprint, Frame, Tolerance
from minifier.failure.difference import Difference

MAX_CALLS = 10**6  # of a compiled function; each is a call in every probe
MAX_SECONDS = 10**9
_KINDS_OF_NODE = OPS | {"placeholder", "get_attr", "output"}
_DRAWN = {"randn", "rand", "randint", "bools", "ones", "zeros", "full", "list", "no memory"}

size = between(0, MAX_SIZE)
natural = between(1, MAX_CALLS)
seconds = between(0, MAX_SECONDS)
names, import_lines = each(texts.identifier), each(texts.import_line)
symbol = texts.optional(texts.symbolic)

FIELDS: dict[type, dict[str, Check]] = {
    TensorMeta: {
        "shape": each(size),
        "stride": each(size),
        "dtype": texts.dtype,
        "device": texts.device,
        "storage": size,
        "offset": size,
        "symbols": each(symbol),
    },
    Scalar: {"value": number, "symbol": symbol},
    Opaque: {"type": texts.line},
    Symbol: {"name": texts.identifier, "hint": number, "low": number, "high": number},
    Ref: {"name": texts.identifier},
    Imported: {"path": texts.import_path},
    SourceExpression: {"expression": texts.expression, "imports": import_lines, "names": names},
    Stored: {"key": texts.text, "offset": size, "base": texts.optional(texts.identifier)},
    Recorded: {"node": texts.identifier},
    Drawn: {
        "how": one_of(_DRAWN),
        "low": number,
        "high": number,
        "values": each(number),
        "storage": texts.optional(texts.text),
    },
    TensorInput: {"name": texts.identifier, "storage": size},
    ScalarInput: {"name": texts.identifier, "value": number, "symbol": symbol},
    Node: {
        "name": texts.identifier,
        "op": one_of(_KINDS_OF_NODE),
        "kwargs": mapping(string(texts.keyword_name), anything),
        "source": texts.text,
        "origin": texts.text,
        "place": texts.text,
        "modules": each(each(texts.text)),
    },
    Module: {
        "type": texts.optional(texts.import_path),
        "plain": mapping(string(texts.text), anything),
        "parameters": mapping(texts.item_path, texts.text),
        "buffers": mapping(texts.item_path, texts.text),
        "children": mapping(texts.item_path, anything),
    },
    Graph: {
        "attributes": mapping(texts.item_path, texts.text),
        "modules": mapping(texts.item_path, anything),
    },
    BackendReference: {
        "name": texts.line,
        "expression": texts.optional(texts.expression),
        "imports": import_lines,
        "mode": texts.optional(texts.line),
        "options": mapping(string(texts.text), anything),
        "distribution": texts.optional(texts.line),
        "version": texts.optional(texts.line),
        "folders": each(texts.folder),
        "reason": texts.text,
        "names": names,
        "made_by": texts.line,
        "ahead": import_lines,
        "variables": each(texts.variable),
        "files": each(texts.folder),
    },
    State: {
        "autocast": each(fields(texts.device, texts.dtype)),
        "default_dtype": texts.dtype,
        "config": each(fields(string(texts.dotted), string(texts.dotted), anything)),
        "switches": each(fields(texts.dotted, plain)),
        "environment": each(fields(texts.variable, texts.text)),
        "skipped": each(texts.text),
    },
    Script: {
        "name": texts.file_name,
        "path": each(texts.folder),
        "imports": import_lines,
        "folders": each(texts.folder),
        "ops": each(texts.operator),
        "line": size,
        "seconds": seconds,
        "slowest": seconds,
        "waited": seconds,
        "graph_number": size,
        "graphs": size,  # 0 as long as the first one is traced
    },
    Call: {"sizes": each(fields(texts.identifier, number)), "times": natural, "pause": seconds},
    Failure: {
        "type": texts.line,
        "message": texts.text,
        "traceback": texts.text,
        "hints": each(each(texts.text)),
        "written": texts.text,
    },
    Fingerprint: {
        "types": each(texts.line),
        "message": texts.text,
        "names": each(texts.text),
        "native": texts.text,
        "aspects": each(texts.line),
        "traced": texts.text,
        "graph_break": texts.text,
    },
    Frame: {"module": texts.line, "function": texts.line},
    Difference: {"where": texts.line, "sentence": texts.text},
    Tolerance: {"rtol": between(0, math.inf), "atol": between(0, math.inf), "predicate": texts.statements},
}

# Of case.json itself.
CASE_FIELDS: dict[str, Check] = {
    "rate": between(1e-9, 1.0),
    "patience": seconds,
    "definitions": texts.statements,
    "needs": each(texts.text),
}
