"""What is handed over beside the repro: report.md, result.json, bundle.zip."""
