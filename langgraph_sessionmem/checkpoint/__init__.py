"""LangGraph's checkpointer: per-thread state that lives as long as it should."""
