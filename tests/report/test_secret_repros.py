"""A repro with a constant that looks like a secret gets no bundle without consent."""

import json
import zipfile

import pytest

pytestmark = pytest.mark.timeout(300)

KEY = "sk-" + "Ab3dEf6hIj9lMn2pQr5t"
SCRIPT = f'''
import torch

API_KEY = "{KEY}"


def service(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target is torch.tanh:
            raise RuntimeError(f"the service refuses tanh for {{API_KEY}}")
    return gm.forward


torch.compile(lambda x: torch.tanh(x.sin()).cos(), backend=service)(torch.ones(3))
'''


def texts_of(done):
    texts = {name: (done.out / name).read_text() for name in ("report.md", "report.html", "result.json")}
    if (done.out / "bundle.zip").exists():
        with zipfile.ZipFile(done.out / "bundle.zip") as bundle:
            texts |= {name: bundle.read(name).decode() for name in bundle.namelist()}
    return texts


@pytest.mark.usefixtures("soak")
def test_a_key_in_the_repro_is_named_and_keeps_the_bundle_from_being_written(project):
    done = project.run(SCRIPT)
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    texts = texts_of(done)
    assert not (done.out / "bundle.zip").exists() and KEY in (done.out / "repro.py").read_text()
    assert not [name for name, text in texts.items() if KEY[:8] in text]
    number = done.repro.splitlines().index(f'API_KEY = "{KEY}"') + 1
    line = f"line {number} "
    assert line in texts["report.md"] and line in done.stderr and "--bundle-private" in done.stderr
    again = project.minify("report", done.out, "--bundle-private", "--show-private")
    assert again.code == 0 and "bundle.zip\n" in again.stdout, again.stderr
    assert KEY in texts_of(done)["repro.py"] and "report.md:" in again.stdout and KEY[:8] not in again.stdout
    assert json.loads(texts["result.json"])["failure"]["message"].endswith("<secret>")
    checked = project.minify("check", done.out)
    assert checked.code == 1, checked.stderr
