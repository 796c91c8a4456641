"""Graphs with collectives: every run of such a graph needs all processes, so it is run as often as the script does."""

import pytest
from vocabulary import Bureau

from minifier.capturing.captured import read_events
from minifier.capturing.script_limits import Comparing
from minifier.data.failure import Tolerance

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def wrong(gm, inputs):
    return lambda *args: tuple(result * 1.5 for result in gm.forward(*args))


def summed(x):
    y = torch.sin(x)
    dist.all_reduce(y)
    return y + 1


def alone(x):
    return torch.cos(x) + 1


for step in (FUNCTIONS):
    torch.compile(step, backend=wrong)(torch.ones(3))
"""


def test_a_graph_with_a_collective_is_not_run_again_and_others_are(bureau: Bureau):
    bureau.capture(SCRIPT.replace("FUNCTIONS", "summed, alone"), comparing=Comparing(Tolerance()))
    events = read_events(bureau.graphs)
    (event,) = [event for event in events if event["event"] == "not compared"]
    assert event["number"] == 1 and "all_reduce" in event["reason"]
    assert [event["number"] for event in events if event["event"] == "failed"] == [2]
