"""The tensor file is a safetensors file, and writing it takes no second copy of the tensors."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from minifier.torch_side.fx.tensors import _CHUNK_BYTES, write_tensors

ROWS = 5 * _CHUNK_BYTES // 8 // 1000  # of a thousand float64: five chunks
SHAPES = {
    "contiguous": lambda: torch.arange(ROWS * 1000.0, dtype=torch.float64).reshape(ROWS, 1000),
    "long rows": lambda: SHAPES["contiguous"]().reshape(2, 2, -1).transpose(0, 1)[:, :, ::2],
    "negative": lambda: torch.complex(*(2 * [SHAPES["contiguous"]()])).conj().imag,
}


@pytest.mark.parametrize("layout", SHAPES)
def test_safetensors_reads_the_elements(layout, tmp_path):
    tensor = SHAPES[layout]()
    others = {"flag": torch.tensor(True), "none": torch.ones(0, 3), "odd": torch.arange(3, dtype=torch.int8)}
    write_tensors(tmp_path / "file", {"x": tensor, **others}, {})
    read = load_file(tmp_path / "file")
    assert torch.equal(read.pop("x"), tensor) and read.keys() == others.keys()
    assert all(torch.equal(read[name], value) and read[name].dtype == value.dtype for name, value in others.items())


PEAK = """
import re, sys
from pathlib import Path
import torch
from minifier.torch_side.fx.tensors import TensorFile

def peak_bytes():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

tensor, file = torch.ones(2**27 // 8 // 1000, 1000, dtype=torch.float64), TensorFile()
inputs = {"transposed": [tensor.t()], "shared": [tensor, tensor[1:]]}[sys.argv[1]]
file.add_inputs({f"x{i}": each for i, each in enumerate(inputs)})
before = peak_bytes()
file.write(Path(sys.argv[2]))
print((peak_bytes() - before) / tensor.nbytes)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("layout", ["transposed", "shared"])
def test_writing_takes_no_second_copy(layout, tmp_path):
    command = [sys.executable, "-c", PEAK, layout, str(tmp_path / "file")]
    assert float(subprocess.check_output(command, text=True)) < 0.5
