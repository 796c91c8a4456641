"""The tool inside the user's own process: `minifier.minify`, `minifier.wrap`, `minifier.capture`, `pytest --minify`."""
