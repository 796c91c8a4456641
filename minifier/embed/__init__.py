"""The tool inside the user's own process: `minifier.wrap`, `minifier.capture`, `pytest --minify`."""
