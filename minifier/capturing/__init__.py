"""Run the user's script as Python would, and record its backend calls."""
