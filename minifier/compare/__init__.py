"""The comparison of a compiled result with eager's, both against a run of eager in double precision."""

from minifier.compare.comparison import Comparison, Row, compare
from minifier.compare.parting import parting_ops
from minifier.compare.results import Results, observe

__all__ = ["Comparison", "Results", "Row", "compare", "observe", "parting_ops"]
