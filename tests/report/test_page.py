"""report.html in a real browser."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from outcomes import outcome

from minifier.repro.emit.repro import Repro
from minifier.repro.report.markdown import page
from minifier.repro.report.sections import report_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> Path:
    """The report of a run, whose repro has a long line."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(report_of(replace(outcome(), repro=Repro(f"x = {'1 + ' * 99}1\n", None)))), encoding="utf-8")
    return path


def test_it_is_one_file_that_fetches_nothing_and_runs_its_own_script_alone(document):
    text = document.read_text()
    assert not re.search(r"\b(?:src|href)=|@import|://", text)
    assert "@media (prefers-color-scheme: dark)" in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'\"" in text


@pytest.fixture
def browser(soak) -> str:
    if BROWSER is None:
        pytest.skip("no Chromium is installed on this machine")
    return BROWSER


@pytest.mark.parametrize("width", [380, 1100])
def test_nothing_hangs_over_the_edge_and_the_repro_has_a_button(browser, document, width, tmp_path):
    """Wide things scroll in themselves: the document is no wider than the window."""
    probe = tmp_path / "probe.html"
    told = "<script>document.title = document.documentElement.scrollWidth + '/' + innerWidth</script></body>"
    probe.write_text(document.read_text().replace("</body>", told).replace("http-equiv", "id"))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    dom = subprocess.run([*command, probe.as_uri()], check=True, capture_output=True, text=True, timeout=100).stdout
    wide, window = map(int, dom.split("<title>")[1].split("</title>")[0].split("/"))
    assert wide <= window and dom.count("<button>Copy</button><pre>") == 1
