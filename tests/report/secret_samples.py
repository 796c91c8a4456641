"""A hundred planted secrets of 25 kinds, in sentences, and thousands of lines that have none."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LETTERS, HEX, UPPER = string.ascii_letters + string.digits, "0123456789abcdef", string.ascii_uppercase + string.digits
DOMAINS = ("example.org", "example.co", "startup.me", "faks.hr", "kth.lt", "corp.id", "firma.sk", "example.photography")
_SENTENCES = (
    "RuntimeError: cannot reach the server with {}",
    'File "train.py", line 3: value = "{}"',
    "{'argument': '{}', 'shape': (2, 3)}",
    "lowering failed for op tanh_3 ({}) at f32[2, 3]",
)


class Source(random.Random):
    """Draws characters; only letters if `is_bare`, where the alphabet has any."""

    is_bare = False


FRAGMENT = 8  # characters of a secret that are one themselves


def _random(drawn: Source, characters: str, count: int) -> str:
    letters = "".join(filter(str.isalpha, characters)) if drawn.is_bare else ""
    return "".join(drawn.choice(letters or characters) for _ in range(count))


def _base64(drawn: Source, text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=") + _random(drawn, LETTERS, 12)


def _pem(d: Source) -> str:
    body = "\n".join(_random(d, LETTERS, 64) for _ in range(3))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


def _jwt(d: Source) -> str:
    header, claims = _base64(d, '{"alg":"HS256"}'), _base64(d, '{"sub":"1234"}')
    return f"{header}.{claims}.{_random(d, LETTERS, 43)}"


# Of each kind: text with the secret, and what of it must not be left.
KINDS: dict[str, Callable[[Source], tuple[str, str]]] = {
    "OpenAI": lambda d: _whole("sk-proj-" + _random(d, LETTERS, 48)),
    "Anthropic": lambda d: _whole("sk-ant-api03-" + _random(d, LETTERS, 40)),
    "GitHub": lambda d: _whole(d.choice(["ghp_", "gho_", "ghs_", "ghu_"]) + _random(d, LETTERS, 36)),
    "GitHub, fine-grained": lambda d: _whole("github_pat_" + _random(d, LETTERS, 22) + "_" + _random(d, LETTERS, 59)),
    "Hugging Face": lambda d: _whole("hf_" + _random(d, LETTERS, 34)),
    "Slack": lambda d: _whole(
        f"xox{d.choice('abprs')}-" + _random(d, string.digits, 12) + "-" + _random(d, LETTERS, 24)
    ),
    "Slack webhook": lambda d: _part("https://hooks.slack.com/services/{}", "T02AB/B03CD/" + _random(d, LETTERS, 24)),
    "AWS key id": lambda d: _whole("AKIA" + _random(d, UPPER, 16)),
    "AWS secret": lambda d: _part("aws_secret_access_key = {}", _random(d, LETTERS + "+/", 40)),
    "Google": lambda d: _whole("AIza" + _random(d, LETTERS + "-_", 35)),
    "GitLab": lambda d: _whole("glpat-" + _random(d, LETTERS, 20)),
    "npm": lambda d: _whole("npm_" + _random(d, LETTERS, 36)),
    "PyPI": lambda d: _whole("pypi-AgEIcHlwaS5vcmc" + _random(d, LETTERS, 60)),
    "Stripe": lambda d: _whole("sk_live_" + _random(d, LETTERS, 24)),
    "SendGrid": lambda d: _whole("SG." + _random(d, LETTERS, 22) + "." + _random(d, LETTERS, 43)),
    "Twilio": lambda d: _whole("SK" + _random(d, HEX, 32)),
    "Telegram": lambda d: _whole(_random(d, "123456789", 10) + ":AA" + _random(d, LETTERS + "-_", 33)),
    "JWT": lambda d: _whole(_jwt(d)),
    "PEM": lambda d: _whole(_pem(d)),
    "URL with a password": lambda d: _part("postgresql://ada:{}@db.example.org:5432/lab", _random(d, LETTERS, 14)),
    "Authorization header": lambda d: _part("Authorization: Bearer {}", _random(d, LETTERS, 32)),
    "cookie": lambda d: _part("Cookie: sid={}", _random(d, LETTERS, 26)),
    "named value": lambda d: _part(d.choice(["password={}", "api_key: {}", "db_passwd = {}"]), _random(d, LETTERS, 16)),
    "e-mail address": lambda d: _whole(
        f"ada.{_random(d, string.ascii_lowercase, 6)}@{d.choice(['lab', 'uni'])}.{d.choice(DOMAINS)}"
    ),
    "IP address": lambda d: _whole(".".join(str(d.randint(20, 250)) for _ in range(4))),
}


def _whole(secret: str) -> tuple[str, str]:
    return secret, secret


def _part(text: str, secret: str) -> tuple[str, str]:
    return text.replace("{}", secret), secret


def planted() -> Iterator[tuple[str, str, str]]:
    """Yield (kind, sentence, secret): four of each kind, two of them without digits where the kind allows that."""
    drawn = Source(20)
    for kind, draw in KINDS.items():
        for number, sentence in enumerate(_SENTENCES):
            drawn.is_bare = number % 2 == 1
            text, secret = draw(drawn)
            yield kind, sentence.replace("{}", text), secret


# Lines of reports that look a little like secrets.
LOOKALIKES = Path(__file__).with_name("lookalikes.txt").read_text(encoding="utf-8")


def ordinary_lines() -> list[str]:
    """Return lines without secrets: look-alikes, and this project's documents, samples, repros and reports."""
    lines = LOOKALIKES.splitlines()
    folders = (ROOT / name for name in ("docs", "notes", "samples", "backends", "repro_templates", "tests"))
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")):
        lines += path.read_text(encoding="utf-8").splitlines()
    return lines


def fragments_left(said: str, secret: str) -> set[str]:
    """Return the fragments of a secret that are still in a cleaned text."""
    starts = range(max(1, len(secret) - FRAGMENT + 1))
    return {fragment for at in starts if (fragment := secret[at : at + FRAGMENT]) in said}


def seen_kinds() -> list[str]:
    """Return the kinds of planted secrets of which a fragment is left in a cleaned text."""
    from minifier.repro.report.redact import Redactor

    redactor = Redactor({})
    samples = ((kind, redactor.clean("report.md", text), secret) for kind, text, secret in planted())
    return list(dict.fromkeys(kind for kind, said, secret in samples if fragments_left(said, secret)))
