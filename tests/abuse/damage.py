"""What may have happened to a file that somebody else sends: cut, other bytes, another value, another kind of file."""

import json
import os
import pickle
import random
from pathlib import Path

SEED = os.environ.get("DAMAGE_SEED") or str(random.randrange(10**6))  # of the many rounds in soak, which print it
CANARY = "canary_of_a_case"  # a module that leaves a file behind when it is imported
VALUES = [
    None, True, -1, 2**70, 10**400, 1e308, float("nan"), "", "../../etc/passwd", "\0", "\ud800", "x" * 10_000,
    [], {}, [[]], {"is": "Case"}, {"float": "much"}, {"tuple": {"a": 1}}, {"slice": [1, 2, 3, 4]}, {"dtype": "no such"},
    "s0**s0**s0", "2**9**9**9", "while True: pass", "torch.no_such", "operator.setitem", "class",
    f"import {CANARY}", f"{CANARY}:thing", f"__import__('{CANARY}')", {"object": f"{CANARY}:x"},
    {"made": [f"__import__('{CANARY}')", [f"import {CANARY}"], []]},
]  # fmt: skip


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


class Opens:
    """What a pickle may do."""

    def __reduce__(self):
        return open, (str(Path.home() / "taken-over"), "w")


def damaged(text, chance, kind):
    """The bytes of a JSON file after an accident or an attack; `kind` numbers these, the last five put in a value."""
    if kind == 0:
        return text[: chance.randrange(len(text))].encode()
    if kind == 1:
        data = bytearray(text.encode())
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    if kind == 2:
        return chance.choice([pickle.dumps(Opens()), b"[" * 100_000, b"", text.encode("utf-16")])
    value = json.loads(text)
    return json.dumps(changed(value, chance.choice(list(places(value))), chance.choice(VALUES))).encode()
