"""Runs the user's script as Python would and writes down the backend calls it makes."""
