"""A script that asks a live sandbox server whether it keeps the contract, for whoever writes or runs one.

`wire` asks, `execution` has the checks of the small API (`/health`, `/execute`), `port` those of `/v1`, `running` does
them one after the other. Imports nothing of the server or its client, so that it errs with neither.
"""
