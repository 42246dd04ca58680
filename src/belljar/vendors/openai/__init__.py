"""OpenAI: the Responses API."""
