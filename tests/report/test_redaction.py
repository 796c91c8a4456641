"""Secrets are in none of the files that are made to be sent, in no form in which a report may have them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import pytest
from case_samples import small_case
from outcomes import write_run

from minifier.data.case.switches import is_secret
from minifier.repro.emit.repro import Repro
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.redact import Redactor, secret_constants
from minifier.repro.report.write_reports import Consent, read_finished, write_reports

TOKEN = "tok-zebra-8841-" + "quagga"
KEY = "sk-" + "Ab3dEf6hIj9lMn2pQr5t"
PASSWORD = "p&w<\"é'\\x12"
PROGRAM = f'''import oddlib

API_KEY = "{KEY}"
fn = oddlib.tanh  # not with {TOKEN}
'''


SECRET = "DB_PASS db_pwd PGPASS GH_PAT KEY Deploy_Key SENTRY_DSN COOKIE SESSION OAUTH AUTHORIZATION OTP PIN NETRC"
OTHER = "PATH KEYBOARD AUTHOR PATTERN BYPASS MONKEY SPIN OPTION OMP_NUM_THREADS"


def test_names_of_secrets():
    assert [name for name in SECRET.split() if not (is_secret(name) and is_secret(name.lower()))] == []
    assert [name for name in OTHER.split() if is_secret(name)] == []


@pytest.mark.parametrize(
    "written",
    [
        TOKEN,
        TOKEN[:8],
        TOKEN[:13],
        "tok-zebra-<number>-quagga",
        "tok-zebra- -quagga",
        json.dumps(TOKEN),
        f"\\n{TOKEN}\\n",
    ],
)
def test_a_value_is_found_in_every_form(written):
    text = f"cannot log in as {written}, sorry"
    said = Redactor({"MY_TOKEN": TOKEN}).clean("", text)
    assert "<secret>" in said and "zebra" not in said
    assert said.startswith("cannot log in as ") and said.endswith(", sorry")


def test_colours_hide_no_secret():
    redactor = Redactor({"MY_TOKEN": TOKEN})
    coloured = f"as \x1b[1m{TOKEN[:5]}\x1b[36m{TOKEN[5:]}\x1b[0m, sorry"
    assert redactor.clean("report.md", coloured) == "as <secret>, sorry" and len(redactor.removals) == 1


@pytest.mark.parametrize("text", ["tok-zebra\\8841\x07quagga", "\x1b[1mtok-zebra\x1b[0m-8841-quagga"])
def test_a_secret_with_control_characters_is_taken_out_whole(text):
    assert Redactor({"MY_TOKEN": text}).clean("report.md", f"as {text}, sorry") == "as <secret>, sorry"


def test_what_ends_a_line_hides_no_shape():
    assert Redactor({}).clean("report.md", "at\r10.1.2.3\x07") == r"at\r<ip>\x07"


@pytest.mark.parametrize("text", ["tok-zeb is short", "quagga", "a number <number>-<number>", "zebra-8841"])
def test_less_than_a_prefix_of_eight_characters_stays(text):
    assert Redactor({"MY_TOKEN": TOKEN}).clean("", text) == text


def test_the_value_of_a_variable_with_a_password_in_a_url():
    redactor = Redactor({"DATABASE_URL": "postgresql://postgres:zebra8841@db.example/x"})
    names = "postgresql://localhost, postgres"
    assert redactor.clean("", f"{names}, zebra8841") == f"{names}, <secret>"
    assert redactor.clean("", "to postgresql://postgres:zebra8841@db/x") == "to postgresql://<secret>@db/x"


def test_values_that_are_switches_words_or_folders_stay(tmp_path):
    redactor = Redactor({"KEY": "1", "SESSION": "default", "PWD": str(tmp_path), "CERT_KEY": str(tmp_path / "x")})
    text = f"1 default {tmp_path} {tmp_path / 'other'}"
    assert redactor.clean("", text) == text


def test_what_is_found_once_is_taken_out_everywhere():
    redactor = Redactor({}, [f"the key {KEY} is wrong"])
    assert redactor.clean("", f"Search for {KEY[:9]} and {KEY.replace('3', '<number>')}").count("sk-Ab") == 0


@pytest.fixture
def leaking(tmp_path, monkeypatch):
    """A run whose failure names secrets: (its output folder, its Outcome)."""
    monkeypatch.setenv("LAB_TOKEN", TOKEN)
    monkeypatch.setenv("LAB_PASS", PASSWORD)
    case = small_case()
    message = f"{TOKEN} | `{PASSWORD}` refused for {KEY}; mail maria.quinn@example.org at 203.0.113.77"
    fingerprint = replace(case.failure.fingerprint, message=message)
    failure = replace(case.failure, message=message, traceback=f"Traceback\nE: {message}", fingerprint=fingerprint)
    case = replace(case, failure=failure, definitions=f'API_KEY = "{KEY}"\n')
    reason = f"it needs {TOKEN} <b>"
    outcome = Outcome(case, case, None, Repro(PROGRAM, None), None, reason, 1.0, 2.0, others=(message,))
    write_run(tmp_path, outcome)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "output_code.py").write_text(f"# of {message}\n")
    return tmp_path, outcome


PIECES = ("zebra", "quagga", "Ab3d", "p&w", "p&amp;w", "w&lt;", "maria", "203.0.113")


def sent(out) -> dict[str, str]:
    """Return the texts of all files that are made to be sent."""
    texts = {name: (out / name).read_text() for name in ("report.md", "report.html", "result.json")}
    if (out / "bundle.zip").exists():
        with zipfile.ZipFile(out / "bundle.zip") as bundle:
            texts |= {f"bundle.zip/{name}": bundle.read(name).decode() for name in bundle.namelist()}
    return texts


def leaks(out) -> list[str]:
    return [f"{piece} in {name}" for name, text in sent(out).items() for piece in PIECES if piece in text]


def test_no_file_has_a_secret_and_the_repro_with_one_is_not_bundled(leaking):
    out, outcome = leaking
    written = write_reports(out, outcome)
    assert leaks(out) == [] and written.bundle is None and not (out / "bundle.zip").exists()
    assert [constant.line for constant in written.constants] == [3]
    text = (out / "report.md").read_text()
    assert "line 3" in text and "--bundle-private" in text and text.count("<secret>") > 5


def test_with_consent_only_the_constant_itself_is_in_the_bundle(leaking):
    out, outcome = leaking
    assert write_reports(out, outcome, Consent(constants=True)).bundle is not None
    assert leaks(out) == ["Ab3d in bundle.zip/repro.py"]
    assert sent(out)["bundle.zip/repro.py"] == PROGRAM.replace(TOKEN, "<secret>")
    assert json.loads(sent(out)["bundle.zip/minimal/case.json"])["failure"]["message"].startswith(
        "<secret> | `<secret>`"
    )


def test_reports_that_are_made_again_without_the_variables_have_no_secrets(leaking, monkeypatch):
    out, outcome = leaking
    write_reports(out, outcome)
    monkeypatch.delenv("LAB_TOKEN")
    monkeypatch.delenv("LAB_PASS")
    again, consent = read_finished(out)
    write_reports(out, again, consent)
    assert leaks(out) == []


def test_what_was_taken_out_is_listed_by_file(leaking):
    out, outcome = leaking
    removals = write_reports(out, outcome).removals
    assert all(len(removal.head) <= 2 for removal in removals)
    kinds = {removal.kind for removal in removals if removal.file == "report.md"}
    assert len(kinds) == 5 and {"LAB_TOKEN", "LAB_PASS"} <= {kind.rpartition(" ")[2] for kind in kinds}


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (f'x = "{KEY}"', [1]),
        (f'\nx = b"{KEY}"', [2]),
        (f'x = f"{KEY}{{y}}"', [1]),
        (f'x = "{KEY[:5]}" "{KEY[5:]}"', [1]),
        ('x = "https://me:zebra8841@h/i"', [1]),
        (f"x = {'1 + ' * 1000}1\nx = '{KEY}'", [2]),
        ('fn(x @ w.T, "eager")  # torch 2.13.0', []),
        ("not python (", []),
    ],
)
def test_constants_of_a_program(program, lines):
    assert [constant.line for constant in secret_constants(program, Redactor({}, [KEY]))] == lines
