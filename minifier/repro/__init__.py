"""A reduced Case or script as a repro: written, sliced, reduced as source, verified, reported."""
