"""The databases: the only room that knows a driver."""
