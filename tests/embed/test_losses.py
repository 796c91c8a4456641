"""What this torch lacks is a warning in the user's own process, and a line of each run."""

import pytest
from layers import sampled

SCRIPT = """
import torch
import torch._dynamo.output_graph
del torch._dynamo.output_graph.OutputGraph.call_user_compiler
import minifier

minifier.wrap("eager")
minifier.wrap("eager")
print("went on")
"""


@pytest.mark.parametrize("option", sampled(["default", "error::UserWarning"]))
def test_a_session_warns_once_of_what_it_loses(project, option):
    """Where warnings are errors, the sentence is printed: the compilation is the user's."""
    done = project.python("-W", option, "-c", SCRIPT, timeout=100)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert done.stderr.count("OutputGraph.call_user_compiler") == 1
