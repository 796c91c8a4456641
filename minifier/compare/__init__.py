"""The comparison of a compiled result with eager's, both against a run of eager in double precision."""

from minifier.compare.comparison import Comparison, Row, compare
from minifier.compare.divergent_ops import divergent_ops
from minifier.compare.results import Results, observe

__all__ = ["Comparison", "Results", "Row", "compare", "divergent_ops", "observe"]
