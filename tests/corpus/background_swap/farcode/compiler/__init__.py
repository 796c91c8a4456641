"""What happens on the other machine, and who waits for it here."""
