"""The scripts that repros are made from: each runs by itself, and is filled in by minifier.repro.emit."""
