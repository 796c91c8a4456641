"""Compare a compiled result with eager's, both judged by an eager run in double precision."""

from minifier.torch_side.compare.comparison import Agreement, Comparison, compare, compare_results
from minifier.torch_side.compare.results import BackwardPass

__all__ = ["Agreement", "BackwardPass", "Comparison", "compare", "compare_results"]
