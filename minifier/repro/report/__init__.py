"""Write the files next to the repro: report.md, report.html, result.json, bundle.zip."""
