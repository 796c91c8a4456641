"""Of a function or a block that is observed in the user's own process nothing stays behind."""

import logging
import sys

import pytest
import torch
from torch._dynamo import convert_frame, output_graph

import minifier
from minifier.flow.embed.function import record_graphs

pytestmark = pytest.mark.timeout(100)
X = torch.ones(2)


def patched():
    return [
        convert_frame.maybe_disable_inference_mode,
        output_graph.OutputGraph.call_user_compiler,
        torch._TorchCompileInductorWrapper.__init__,
        logging.Logger.handle,
        logging.Logger.isEnabledFor,
        sys.gettrace(),
    ]


def double(x):
    return x * 2


def test_the_patches_of_recordings_and_sessions_end(forked, tmp_path):
    def work():
        before = patched()
        for number in (1, 2):
            (tmp_path / f"{number}").mkdir()
            assert record_graphs(double, [X], "eager", tmp_path / f"{number}") == 1
            with minifier.capture(tmp_path / "captured"):
                torch.compile(double, backend="eager")(X)
            torch._dynamo.reset()
            assert patched() == before

    forked(work, timeout=90)
