"""The honest test: `python repro.py` in new interpreters, in empty folders, with a scrubbed environment."""

from minifier.process.interpreters import clean_environment
from minifier.verify.interpreter import Run, run_script
from minifier.verify.verdict import RUNS, Verification, shows, verify

__all__ = ["RUNS", "Run", "Verification", "clean_environment", "run_script", "shows", "verify"]
