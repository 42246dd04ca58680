"""The shapes on OpenAI's wire: frozen tagged values, no I/O, nothing of ours but the errors."""
