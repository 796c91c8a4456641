"""A hundred secrets of 25 kinds are found; lines of ordinary reports have none."""

from __future__ import annotations

import pytest
from secret_samples import KINDS, LOOKALIKES, fragments_left, ordinary_lines, planted

from minifier.repro.report.redact import Redactor
from minifier.repro.report.secrets import find_secrets

LINES, FALSE_ALARMS = 2000, 5  # at most so many in so many lines


@pytest.mark.parametrize("kind", KINDS)
def test_every_secret_is_found(kind):
    for text, secret in [(text, secret) for sample, text, secret in planted() if sample == kind]:
        said = Redactor({}).clean("", text)
        assert not fragments_left(said, secret), said
        assert any(word in said for word in ("ookie: <", "server with", "line 3", "shape", "f32[2, 3]"))


def test_what_looks_a_little_like_a_secret_stays():
    assert Redactor({}).clean("", LOOKALIKES) == LOOKALIKES


def test_ordinary_lines_have_hardly_a_false_alarm():
    lines = ordinary_lines()
    alarms = [(found.kind, line) for line in lines for found in find_secrets(line)]
    assert len(lines) >= LINES and len(alarms) * LINES <= FALSE_ALARMS * len(lines), alarms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{'api_key': 'abcdefgh12345678'}", "{'api_key': '<secret>'}"),
        ("wandb: Api key: 9f8e7d6c5b4a39281706", "wandb: Api key: <secret>"),
        ("password: correcthorse", "password: <secret>"),
        ("password=hunter host=db", "password=<secret> host=db"),
        ("wrong password: somebody else logged in", "wrong password: somebody else logged in"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz", "Authorization: Bearer <secret>"),
        ('{"Authorization": "abcdefghijkl"}', '{"Authorization": "<secret>"}'),
        ("token=" + "abcdefghijklmnopqrstuvwxyz", "token=<secret>"),
        ("sk-learn-contrib-estimators", "sk-learn-contrib-estimators"),
        ("torch 192.168.7.9, torch 10.0.0.7", "torch <ip>, torch <ip>"),
        ("pypi-" + "AgEIcHlwaS5vcmcCJ", "<secret>"),
        ("x@w.weight; y = q@k.mT; ada@startup.me", "x@w.weight; y = q@k.mT; <e-mail>"),
    ],
)
def test_single_sentences(text, said):
    assert Redactor({}).clean("", text) == said
