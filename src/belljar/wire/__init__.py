"""Shapes of OpenAI's API: frozen tagged values, no I/O, nothing of ours but the errors."""
