"""`minify hunt`: many small programs through a backend, and a verified repro of each distinct failure."""
