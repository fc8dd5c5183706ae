"""What `benchmarks/checkpointer.py` is made of: databases, savers, workloads, tables and plots."""
