"""What a person sees in the terminal: the status line, lines, questions, and the last lines of a run."""
