"""The chat completions API: its requests translated to Responses requests, and our responses back."""
