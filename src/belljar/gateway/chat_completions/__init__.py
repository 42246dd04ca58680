"""Our API in OpenAI's older words, chat completions: their bodies as our requests, our answers as theirs."""
