"""Each vendor's wire to ours and back: pure functions and small state machines, bytes in, values out."""
