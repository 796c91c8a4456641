"""What the fuzzer makes of the files of a Case: values of the same type, of another, and files that are no JSON."""

from __future__ import annotations

import functools
import json
from typing import Any

from hypothesis import strategies as st

from minifier.case.store import CASE, GRAPH
from minifier.case.stored import TENSORS

CANARY = "canary_of_the_fuzzer"  # a module that leaves a file behind when it is imported

Change = tuple[str, bytes]  # (the file's name in the Case folder, its new content)

HUGE = [2**31, 2**63 - 1, 2**63, -(2**63), 10**18, 10**400, 10**4000]
INTEGERS = st.sampled_from([0, 1, -1, 2, 3, 7, 64, 10**6, *HUGE]) | st.integers(-9, 99)
FLOATS = st.sampled_from([0.0, -0.0, 1e308, 5e-324, -1.5, float("nan"), float("inf"), float("-inf")]) | st.floats()
STRINGS = st.sampled_from(
    [
        "",
        " ",
        "x",
        "..",
        "../..",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\nb",
        "\0",
        "\u2028",
        "caf\u00e9",
        "\ud800",
        "x" * 100_000,
        "import os",
        "import os; os.abort()",
        f"import {CANARY}",
        CANARY,
        f"{CANARY}:thing",
        f"{CANARY}.thing",
        "None",
        f"__import__('{CANARY}')",
        f"(lambda: __import__('{CANARY}'))()",
        "class",
        "lambda",
        "1 +",
        "'''",
        "# comment",
        "x = 1",
        "(" * 150 + ")" * 150,
        "(" * 5000,
        "-" * 3000 + "1",
        "f(x",
        "while True: pass",
        "s0",
        "s0**s0**s0",
        "2**9**9**9",
        "s1//0",
        "Max(s0, 10**400)",
        "torch.float32",
        "torch",
        "torch.no_such",
        "torch.ops.aten.add",
        "operator.setitem",
        "operator.iadd",
        "operator.getitem",
        "operator.neg",
        "torch.ops.higher_order.cond",
        "torch.ops.higher_order.autograd_function_apply",
        "torch.ops.higher_order.invoke_subgraph",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation",
        "torch._C._set_grad_enabled",
        "__main__:x",
        "float64",
        "int64",
        "bool",
        "uint1",
        "cuda:0",
        "cpu:",
        "meta",
        "{}",
        "%s%n",
        "get_attr",
        "call_module",
    ]
) | st.text(max_size=20)
_OTHERS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    10**400,
    1.5,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"is": "State"},
    {"is": "TensorMeta"},
    {"x": 1},
    {"float": "nan"},
    {"float": "much"},
    {"node": "x"},
    {"node": 3},
    {"tuple": []},
    {"tuple": {"a": 1}},
    {"set": [[1]]},
    {"range": [1, 2, 0]},
    {"range": [0, 10**12, 1]},
    {"dict": [[[], 1]]},
    {"size": [10**400]},
    {"slice": [1, 2, 3, 4]},
    {"complex": [1]},
    {"made": [f"__import__('{CANARY}')", [f"import {CANARY}"], []]},
    {"object": f"{CANARY}:x"},
    {"dtype": "no such"},
    {"device": "x\n"},
    {"ellipsis": 1},
)
OTHERS = st.sampled_from([json.dumps(value) for value in _OTHERS]).map(json.loads)  # each a new one


def same_type(value: Any) -> st.SearchStrategy[Any]:
    """Return values of the same JSON type."""
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int):
        return INTEGERS
    if isinstance(value, float):
        return FLOATS | INTEGERS
    if isinstance(value, str):
        return STRINGS
    return OTHERS


@functools.cache
def deep(levels: int) -> str:
    """Return lists in lists, as text: json.dumps cannot write them."""
    return "[" * levels + "]" * levels


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value inside a JSON value."""
    found = [here] if here else []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += places(item, (*here, key))
    return found


def at(data: Any, place: tuple[Any, ...]) -> Any:
    """Return the value at this place."""
    return functools.reduce(lambda holder, key: holder[key], place, data)


KINDS = ("leaf", "leaf", "leaf", "leaf", "other", "delete", "add", "repeat", "swap", "nest", "rename")


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the JSON file with one to three changes that leave it JSON, or with one that does not."""
    if draw(st.integers(0, 11)) == 0:
        return draw(broken(content))
    data = json.loads(content)
    holes: list[str] = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        everywhere = places(data)
        if not everywhere:  # all was deleted
            break
        kind = draw(st.sampled_from(KINDS))
        if kind == "leaf":
            everywhere = [place for place in everywhere if not isinstance(at(data, place), (dict, list))] or everywhere
        place = draw(st.sampled_from(everywhere))
        holder, key = at(data, place[:-1]), place[-1]
        if kind == "leaf":
            holder[key] = draw(same_type(holder[key]))
        elif kind == "other":
            holder[key] = draw(OTHERS)
        elif kind == "delete":
            del holder[key]
        elif kind == "add" and isinstance(holder, dict):
            holder[draw(STRINGS)] = draw(OTHERS)
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw(STRINGS)] = holder.pop(key)
        elif kind in ("add", "repeat") and isinstance(holder, list):
            holder.insert(key, json.loads(json.dumps(holder[key])))
        elif kind == "swap":
            other = draw(st.sampled_from(places(data)))
            holder[key] = json.loads(json.dumps(at(data, other)))
        elif kind == "nest":
            levels = draw(st.sampled_from([2, 30, 90, 200, 900, 100_000]))
            holes.append(deep(levels))
            holder[key] = f"hole {len(holes) - 1}"
    text = json.dumps(data)
    for number, hole in enumerate(holes):
        text = text.replace(f'"hole {number}"', hole)
    return text.encode()


@st.composite
def broken(draw: st.DrawFn, content: bytes) -> bytes:
    """Return bytes that are hardly JSON: cut, of another encoding, with other bytes, or too deep."""
    kind = draw(st.sampled_from(["cut", "utf-16", "bytes", "deep", "empty", "mark"]))
    if kind == "cut":
        return content[: draw(st.integers(0, len(content) - 1))]
    if kind == "utf-16":
        return content.decode().encode("utf-16")
    if kind == "bytes":
        position = draw(st.integers(0, len(content) - 1))
        return content[:position] + draw(st.binary(min_size=1, max_size=4)) + content[position + 1 :]
    return {"deep": b"[" * 100_000, "empty": b"", "mark": b"\xef\xbb\xbf" + content}[kind]


@st.composite
def damaged_tensors(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the tensor file with another header, or cut."""
    length = int.from_bytes(content[:8], "little")
    header = draw(mutated(content[8 : 8 + length]))
    kind = draw(st.sampled_from(["header", "length", "cut"]))
    if kind == "header":
        return len(header).to_bytes(8, "little") + header + content[8 + length :]
    if kind == "length":
        return draw(st.sampled_from([0, 1, 2**31, 2**63])).to_bytes(8, "little") + content[8:]
    return content[: draw(st.integers(0, len(content) - 1))]


@st.composite
def changes(draw: st.DrawFn, sound: dict[str, bytes]) -> Change:
    """Return a file of the Case folder with its new content."""
    names = [CASE, CASE, GRAPH, GRAPH, GRAPH, *([TENSORS] if TENSORS in sound else [])]
    name = draw(st.sampled_from(names))
    return name, draw((damaged_tensors if name == TENSORS else mutated)(sound[name]))
