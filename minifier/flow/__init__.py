"""The flow of a run, from a script or a Case to a verified repro and its reports, and the fallbacks on its way."""
