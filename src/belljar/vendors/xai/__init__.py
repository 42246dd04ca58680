"""xAI: the Responses API with its own differences."""
