"""Run untrusted Python isolated by the kernel; knows no HTTP API, no model, no OpenAI.

Owns sandboxes, their limits, their files and the outputs of cells. Does not know containers, responses or users.
May import `config` and `errors` only.
"""
