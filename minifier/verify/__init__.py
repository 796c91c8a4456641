"""Run `python repro.py` in fresh interpreters, in empty folders, with a scrubbed environment."""

from minifier.verify.interpreter import Conditions, ScriptRun, run_script
from minifier.verify.verdict import RUNS, Verification, verify

__all__ = ["RUNS", "Conditions", "ScriptRun", "Verification", "run_script", "verify"]
