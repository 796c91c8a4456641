"""A Case: all data needed to reproduce a failure, stored in readable files."""

from minifier.data.case.case import (
    EAGER,
    TORCH_COMPILE,
    BackendReference,
    BackendSource,
    Call,
    Case,
    Level,
    Ones,
    Script,
    State,
    Symbolic,
)
from minifier.data.case.graph import EMPTY_GRAPH, Graph, Node, Ref
from minifier.data.case.inputs import Adapted, Drawn, Input, Recorded, ScalarInput, Stored, TensorInput
from minifier.data.case.values import Opaque, Scalar, Sequence_, TensorMeta

__all__ = [
    "EAGER",
    "EMPTY_GRAPH",
    "TORCH_COMPILE",
    "Adapted",
    "BackendReference",
    "BackendSource",
    "Call",
    "Case",
    "Drawn",
    "Graph",
    "Input",
    "Level",
    "Node",
    "Ones",
    "Opaque",
    "Recorded",
    "Ref",
    "Scalar",
    "ScalarInput",
    "Script",
    "Sequence_",
    "State",
    "Stored",
    "Symbolic",
    "TensorInput",
    "TensorMeta",
]
