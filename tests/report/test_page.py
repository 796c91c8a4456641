"""report.html in a real browser."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from case_samples import call, graph, output, placeholder, small_case
from outcomes import outcome

from minifier.data.case import Ref
from minifier.repro.report.markdown import page
from minifier.repro.report.sections import report_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> Path:
    """The report of a run on 300 ops, with its picture."""
    ops = [call("a0", "torch.sin", Ref("x"))] + [call(f"a{n}", "torch.cos", Ref(f"a{n - 1}")) for n in range(1, 300)]
    given = outcome(small_case().failure)
    given = replace(given, case=replace(given.case, graph=graph(placeholder("x"), *ops, output("a299"))))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(report_of(given)), encoding="utf-8")
    return path


def test_it_is_one_file_that_fetches_nothing(document):
    text = document.read_text()
    assert "<script" not in text and "src=" not in text and "href=" not in text and "@import" not in text
    assert "@media (prefers-color-scheme: dark)" in text
    assert text.count("<figure") == 1 and text.count('class="gone"') == 300


def test_what_a_backend_says_is_text_not_markup():
    failure = replace(small_case().failure, message="<script>alert('`x`')</script> & more", traceback="<b>bold</b>")
    text = page(report_of(outcome(failure)))
    assert "<script" not in text and "<b>" not in text and "&lt;b&gt;bold" in text


@pytest.fixture
def browser(soak) -> str:
    if BROWSER is None:
        pytest.skip("no Chromium is installed on this machine")
    return BROWSER


@pytest.mark.parametrize("width", [380, 1100])
def test_nothing_hangs_over_the_edge(browser, document, width, tmp_path):
    """Wide things scroll in themselves: the document is no wider than the window."""
    probe = tmp_path / "probe.html"
    told = "<script>document.title = document.documentElement.scrollWidth + '/' + innerWidth</script></body>"
    probe.write_text(document.read_text().replace("</body>", told))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    dom = subprocess.run([*command, probe.as_uri()], check=True, capture_output=True, text=True, timeout=100).stdout
    wide, window = map(int, dom.split("<title>")[1].split("</title>")[0].split("/"))
    assert wide <= window
