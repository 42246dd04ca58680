"""Check that a live sandbox server keeps its API contract, for whoever writes or runs one.

`wire` asks, `execution` has the checks of the small API (`/health`, `/execute`), `port` those of `/v1`, `runner` does
them one after the other. Imports nothing of the server or its client, so that it errs with neither.
"""
