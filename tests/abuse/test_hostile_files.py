"""Case folders and bundles that somebody has made up: each is read as what it is, or refused with a message."""

import io
import json
import pickle
import random
import struct
import zipfile
from pathlib import Path

import pytest
from case_samples import small_case

from minifier.case.encode import pack
from minifier.case.made_here import MARK
from minifier.case.store import CASE, GRAPH, load, save
from minifier.case.stored import TENSORS
from minifier.cli.checking import GONE, SOMETHING_ELSE, check_command
from minifier.errors import UsageError
from minifier.workflow.unpack_bundle import unpack_bundle

pytestmark = pytest.mark.timeout(120)

ROUNDS = 1000
VALUES = [
    None,
    True,
    -1,
    2**70,
    1e308,
    float("nan"),
    "",
    "../../etc/passwd",
    "\0",
    [],
    {},
    [[]],
    {"is": "Case"},
    "x" * 10_000,
]


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


def test_a_thousand_case_folders(tmp_path):
    folder = tmp_path / "case"
    save(small_case(), folder)
    sound = {name: json.loads((folder / name).read_text()) for name in (CASE, GRAPH)}
    del sound[CASE][MARK]  # which another key makes another, and no reader minds
    chance = random.Random(3)
    refused = 0
    for number in range(ROUNDS):
        name = chance.choice([CASE, GRAPH])
        text = json.dumps(sound[name])
        kind = number % 4
        if kind == 0:
            data = text[: chance.randrange(len(text))].encode()
        elif kind == 1:
            data = bytearray(text.encode())
            for _ in range(3):
                data[chance.randrange(len(data))] = chance.randrange(256)
        elif kind == 2:
            data = pickle.dumps(Opens()) if chance.random() < 0.1 else chance.randbytes(chance.randrange(200))
        else:
            place = chance.choice(list(places(sound[name])))
            data = json.dumps(changed(sound[name], place, chance.choice(VALUES))).encode()
        (folder / name).write_bytes(bytes(data))
        try:
            load(folder)
        except UsageError as error:
            refused += 1
            assert name in str(error)
        (folder / name).write_text(text)
    assert refused > ROUNDS / 2 and load(folder) == small_case()
    assert not (Path.home() / "taken-over").exists()


@pytest.mark.parametrize("data", [b"", b"\x80\x04", struct.pack("<Q", 2**60) + b"{}", pickle.dumps(Opens())])
def test_a_tensor_file_that_is_none(tmp_path, data):
    save(small_case(), tmp_path)
    told = json.loads((tmp_path / CASE).read_text())
    (tmp_path / CASE).write_text(json.dumps({**told, "tensors": TENSORS}))
    (tmp_path / TENSORS).write_bytes(data)
    with pytest.raises(UsageError, match=TENSORS):
        load(tmp_path)


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


def test_a_thousand_bundles(tmp_path):
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


@pytest.mark.parametrize("declared", [2**28, 2**22, 1])
def test_a_bomb_is_left_alone(tmp_path, declared):
    """By the size that it declares, and where that is false, by the size that it has."""
    data = bundle(**{"repro.py": b"#" * 2**28})
    (tmp_path / "bundle.zip").write_bytes(data.replace(struct.pack("<L", 2**28), struct.pack("<L", declared)))
    with pytest.raises(UsageError, match=r"more than|cannot be unpacked"):
        unpack_bundle(tmp_path / "bundle.zip", tmp_path)
    written = tmp_path / "repro.py"
    assert not written.exists() if declared == 2**28 else written.stat().st_size <= 2**22 + 2**20


@pytest.mark.usefixtures("processes")
def test_check_of_a_bundle_says_what_it_saw(tmp_path, capsys):
    path = tmp_path / "bundle.zip"
    path.write_bytes(bundle(**REPRO, **RESULT))
    assert check_command(path, 30, trust=True) == GONE and "the failure is gone" in capsys.readouterr().out
    for data, said in ((b"", "cannot be unpacked"), (bundle(**RESULT), "has no repro.py"), (b"PK\3\4", "unpacked")):
        path.write_bytes(data)
        assert check_command(path, 30, trust=True) == SOMETHING_ELSE and said in capsys.readouterr().err
