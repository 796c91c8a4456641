"""The names of torch that this tool relies on: private interfaces, names in texts, releases."""
