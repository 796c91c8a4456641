"""Run `python repro.py` in fresh interpreters, in empty folders, with a scrubbed environment."""

from minifier.verify.interpreter import Run, run_script
from minifier.verify.verdict import RUNS, Verification, shows, verify

__all__ = ["RUNS", "Run", "Verification", "run_script", "shows", "verify"]
