"""Run `python repro.py` in fresh interpreters, in empty folders, with a scrubbed environment."""

from minifier.verify.interpreter import ScriptRun, run_script
from minifier.verify.verdict import RUNS, Conditions, Verification, shows, verify

__all__ = ["RUNS", "Conditions", "ScriptRun", "Verification", "run_script", "shows", "verify"]
