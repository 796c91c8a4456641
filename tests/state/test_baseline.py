"""The defaults that a Case's state is compared with: they follow the process's variables, whatever ran before."""

import os

import pytest
import torch

from minifier.capturing.process_state import baseline_of_a_repro
from minifier.torch_side.torch_private.modes import config_values

pytestmark = pytest.mark.timeout(200)
FOLDER = ("torch._dynamo.config", "debug_dir_root")  # in the folder in which torch was imported


def test_a_second_run_has_the_defaults_of_its_own_variables(forked):
    here = torch.get_num_threads()

    def work():
        first = baseline_of_a_repro()
        assert first.environment["OMP_NUM_THREADS"] == "1" and "ACME" not in first.environment
        os.environ.update(OMP_NUM_THREADS="1,1", ACME="1")  # torch caps higher numbers at the cores
        second = baseline_of_a_repro()
        assert second.environment["OMP_NUM_THREADS"] == "1,1" and second.environment["ACME"] == "1"
        os.environ["OMP_NUM_THREADS"] = "1"
        return [each.switches["num_threads"] for each in (first, second, baseline_of_a_repro())]

    assert forked(work, 150) == [here, 1, here]


@pytest.mark.soak
def test_torchs_variables_and_the_folder_change_no_default(forked, tmp_path):
    def work():
        os.chdir(tmp_path)
        os.environ["TORCHDYNAMO_CACHE_SIZE_LIMIT"] = "3"
        reported, here = baseline_of_a_repro().config, config_values()
        return {key: (here[key], reported[key]) for key in here if reported.get(key) != here[key]}, FOLDER in reported

    assert forked(work, 150) == ({}, True)
