"""A request becomes a stream of events."""
