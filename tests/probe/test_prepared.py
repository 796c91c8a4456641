"""What the process of a reduction has done before it forks its first probe."""

import os
from dataclasses import replace

import pytest
import torch
from case_samples import small_case

from minifier.data.case import Stored, TensorInput, TensorMeta
from minifier.reduction.probe.prepared_case import prepare_case
from minifier.torch_side.fx.tensors import ALIGNMENT_BYTES, TensorFile

MANY = 200_000  # elements, with which torch computes in several threads


@pytest.mark.parametrize("layout", ["misaligned", "transposed"])
def test_loading_large_tensors_starts_no_thread_that_forks_would_wait_for(forked, tmp_path, layout):
    values = torch.arange(2.0 * MANY).reshape(2, MANY)
    tensors = {"a": torch.ones(3), "x": values.t() if layout == "transposed" else values}
    file = TensorFile()
    for name, tensor in tensors.items():
        file.add(name, tensor)
    inputs = tuple(
        TensorInput(name, TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), "float32"), Stored(name))
        for name, tensor in tensors.items()
    )
    path = file.write(tmp_path / "tensors.safetensors")
    case = replace(small_case(), inputs=inputs, tensors=path)

    def work():
        torch.set_num_threads(2)
        before = len(os.listdir("/proc/self/task"))
        prepared = prepare_case(case, imports_in_child=True)
        started = len(os.listdir("/proc/self/task")) - before
        read = prepared.tensors.get("x")
        return started, read.data_ptr() % ALIGNMENT_BYTES, torch.equal(read, tensors["x"]), torch.get_num_threads()

    assert forked(work) == (0, 0, True, 2)
