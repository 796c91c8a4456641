"""Case folders and bundles that somebody has made up: each is read as what it is, or refused with a message."""

import ast
import io
import json
import random
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import small_case
from case_text import case_of
from damage import CANARY, SEED, damaged
from layers import SOAK

from minifier.data.case import State
from minifier.data.case.serial import pack
from minifier.data.case.store import CASE, GRAPH, load, save
from minifier.data.case.values import SourceExpression
from minifier.errors import CannotSave, NoRepro, UsageError
from minifier.flow.check_repro import unpack_bundle
from minifier.repro.emit.forms import forms_for
from minifier.repro.emit.repro import write_repro

pytestmark = pytest.mark.timeout(120)

ROUNDS, SOAK_ROUNDS = 100, 1700  # of each Case


def read_and_write(folder):
    """Load the Case and write its forms, as texts that are Python; return whether it was not refused."""
    try:
        case = load(folder)
    except UsageError as error:
        assert any(name in str(error) for name in (CASE, GRAPH)) and len(str(error)) < 2000
        return False
    for template, variant in forms_for(case)[:2]:
        try:
            ast.parse(write_repro(case, template, variant).text)
        except (NoRepro, CannotSave):
            return True
    return True


def saved_cases():
    """Cases of several kinds: of Dynamo, with symbols, with graphs in a graph, and a script's definitions."""
    yield small_case()
    branches = {"true_0": "a: float32[2]\nb = torch.tanh(a)\nreturn b", "false_0": "a: float32[2]\nreturn a"}
    yield case_of(
        "p: bool[1]\nx: float32[2]\nt = get_attr(true_0)\nf = get_attr(false_0)\n"
        "y: float32[2] = torch.ops.higher_order.cond(p, t, f, (x,))\nreturn y",
        bodies=branches,
    )
    made = SourceExpression("functools.partial(helper, k=1)", ("import functools",), ("helper",))
    case = small_case()
    yield replace(
        case,
        backend=replace(case.backend, options={"made": made}),
        state=State(autocast=(("cpu", "bfloat16"),), config=(("torch._dynamo.config", "cache_size_limit", made),)),
        definitions="def helper(x, k=0):\n    return x\n",
    )


@pytest.mark.parametrize(
    ("rounds", "seed"), [(ROUNDS, "3"), pytest.param(SOAK_ROUNDS, SEED, marks=SOAK)], ids=["sample", "many"]
)
@pytest.mark.parametrize("case", list(saved_cases()), ids=["small", "branches", "definitions"])
def test_damaged_case_folders(tmp_path, monkeypatch, record_property, case, rounds, seed):
    """The seed of the many is drawn and printed; DAMAGE_SEED gives it."""
    folder, singing = tmp_path / "case", tmp_path / "singing"
    (tmp_path / f"{CANARY}.py").write_text(f"open({str(singing)!r}, 'w').close()\nthing = x = print\n")
    monkeypatch.syspath_prepend(tmp_path)
    save(case, folder)
    sound = {name: json.loads((folder / name).read_text()) for name in (CASE, GRAPH)}
    record_property("printed", f"damaged cases, seed {seed}")
    chance = random.Random(seed)
    refused = 0
    for number in range(rounds):
        name = chance.choice([CASE, GRAPH])
        text = json.dumps(sound[name])
        data = damaged(text, chance, number % 8)
        (folder / name).write_bytes(data)
        refused += not read_and_write(folder)
        (folder / name).write_text(text)
    record_property("printed", f"{refused} of {rounds} were refused, the others written")
    assert rounds / 3 < refused < rounds and read_and_write(folder)
    assert not singing.exists() and not (Path.home() / "taken-over").exists()


def test_a_link_to_somewhere_else_is_only_read(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / CASE).symlink_to(secret)
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "case")
    assert "root:x" not in str(caught.value) and secret.read_text() == "root:x:0:0"


def bundle(**entries: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return data.getvalue()


REPRO = {"repro.py": b"print('well')\n"}
RESULT = {"result.json": json.dumps({"failure": {"fingerprint": pack(small_case().failure.fingerprint)}}).encode()}


def test_damaged_bundles(tmp_path):
    sound = bundle(**REPRO, **RESULT)
    chance = random.Random(5)
    before = sorted(tmp_path.parent.iterdir())
    refused = 0
    for number in range(ROUNDS):
        data = bytearray(sound)
        if number % 2:
            data = data[: chance.randrange(len(data))]
        else:
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        path, into = tmp_path / "bundle.zip", tmp_path / str(number)
        path.write_bytes(bytes(data))
        into.mkdir()
        try:
            unpack_bundle(path, into)
        except UsageError:
            refused += 1
        assert {item.name for item in into.iterdir()} <= {"repro.py", "result.json"}
    assert refused > ROUNDS / 3 and sorted(tmp_path.parent.iterdir()) == before


def test_a_bundle_without_a_repro_is_none(tmp_path):
    (tmp_path / "bundle.zip").write_bytes(bundle(**RESULT))
    with pytest.raises(UsageError, match=r"has no repro\.py"):
        unpack_bundle(tmp_path / "bundle.zip", tmp_path)


@pytest.mark.parametrize("name", ["../repro.py", "/tmp/repro.py", "a/../../repro.py", "..\\repro.py", "C:\\repro.py"])
def test_nothing_leads_outside(tmp_path, name):
    into = tmp_path / "into"
    into.mkdir()
    (tmp_path / "bundle.zip").write_bytes(bundle(**REPRO, **{name: b"raise SystemExit(9)"}))
    unpack_bundle(tmp_path / "bundle.zip", into)
    assert [item.name for item in into.iterdir()] == ["repro.py"] and not (tmp_path / "repro.py").exists()


def test_a_link_in_a_bundle_is_a_file(tmp_path):
    link = zipfile.ZipInfo("result.json")
    link.external_attr = 0o120777 << 16
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("repro.py", b"")
        file.writestr(link, b"/etc/passwd")
    (tmp_path / "bundle.zip").write_bytes(data.getvalue())
    unpack_bundle(tmp_path / "bundle.zip", tmp_path)
    assert not (tmp_path / "result.json").is_symlink() and (tmp_path / "result.json").read_text() == "/etc/passwd"


@pytest.mark.parametrize("declared", [2**28, 1])
def test_a_bomb_is_left_alone(tmp_path, declared):
    """By the size that it declares, and where that is false, by the size that it has."""
    data = bundle(**{"repro.py": b"#" * 2**28})
    (tmp_path / "bundle.zip").write_bytes(data.replace(struct.pack("<L", 2**28), struct.pack("<L", declared)))
    with pytest.raises(UsageError):
        unpack_bundle(tmp_path / "bundle.zip", tmp_path)
    written = tmp_path / "repro.py"
    assert not written.exists() if declared == 2**28 else written.stat().st_size <= 2**22 + 2**20
