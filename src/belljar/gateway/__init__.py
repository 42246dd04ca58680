"""The gateway: OpenAI's Responses, Containers and Files API over the sandbox, with any model behind it."""
