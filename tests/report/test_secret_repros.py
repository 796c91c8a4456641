"""A repro with a constant that looks like a secret gets no bundle without consent."""

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


@pytest.mark.usefixtures("soak")
def test_a_key_in_the_repro_is_named_and_keeps_the_bundle_from_being_written(project):
    """What else has no key is in test_redaction.py."""
    done = project.run(SCRIPT)
    assert done.code == 0 and not (done.out / "bundle.zip").exists(), done.stderr
    number = done.repro.splitlines().index(f'API_KEY = "{KEY}"') + 1
    assert f"line {number} " in done.stderr and "--bundle-private" in done.stderr
    again = project.minify("report", done.out, "--bundle-private", "--show-private")
    assert again.code == 0 and (done.out / "bundle.zip").exists(), again.stderr
    assert "report.md:" in again.stdout and KEY[:8] not in again.stdout
