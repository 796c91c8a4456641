"""Compare a compiled result with eager's, both judged by an eager run in double precision."""

from minifier.compare.comparison import Comparison, compare, compare_results
from minifier.compare.divergent_ops import divergent_ops
from minifier.compare.results import BackwardPass

__all__ = ["BackwardPass", "Comparison", "compare", "compare_results", "divergent_ops"]
