"""Tin Can: a vendor that nobody has heard of, with a wire that nobody else speaks."""
