"""How well, and how fast, search finds what is asked for."""
