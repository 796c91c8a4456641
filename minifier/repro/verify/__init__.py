"""Run `python repro.py` in fresh interpreters, in empty folders, with a scrubbed environment."""

from minifier.repro.verify.verdict import RUNS, Conditions, ScriptRun, Verification, run_script, verify

__all__ = ["RUNS", "Conditions", "ScriptRun", "Verification", "run_script", "verify"]
