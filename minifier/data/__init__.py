"""Plain data: Cases, failures, settings, errors, names of torch. Knows neither torch nor processes."""
