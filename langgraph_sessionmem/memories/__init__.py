"""Typed memories across threads: versions, conflicts, sources and time."""
