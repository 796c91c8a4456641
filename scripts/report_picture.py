"""Write docs/report.png: the top of the report of `make demo`, as Chromium shows it.

`python scripts/report_picture.py` runs the demo's sample; after a FOLDER it takes the report of that finished run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "report.png"
MAX_BYTES = 150_000
SIZE = "840,1192"  # pixels: from the title to the end of the original traceback
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def demo(folder: Path) -> Path:
    """Run the sample of `make demo`; return the output folder."""
    out = folder / "failing-1"
    command = [sys.executable, "-m", "minifier", "run", "--quiet", "--out", str(out), "samples/failing.py"]
    subprocess.run(command, cwd=ROOT, check=True)
    return out


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path | None) -> None:
    """Take the picture of the report in FOLDER, or of the demo's."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise click.ClickException(f"none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory(prefix="minify-picture-") as temporary:
        report = ((folder or demo(Path(temporary))) / "report.html").resolve()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]
        settings = [f"--user-data-dir={temporary}/profile", f"--window-size={SIZE}", f"--screenshot={PICTURE}"]
        subprocess.run([browser, *options, *settings, report.as_uri()], check=True, capture_output=True, timeout=100)
    if (size := PICTURE.stat().st_size) > MAX_BYTES:
        raise click.ClickException(f"{PICTURE} has {size} bytes, more than {MAX_BYTES}")


if __name__ == "__main__":
    main()
