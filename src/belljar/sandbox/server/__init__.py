"""The jail behind HTTP, so that it can live in another process, under another user, on another machine or in a pod.

Owns who may ask, how long a sandbox is kept for whom, and how outputs and files travel. `/v1` is the whole port of
`sandbox.base`; `POST /execute` is the small stateless one. Does not know containers, models or the gateway. The other
end is `sandbox.remote`, and what both say to each other is in `sandbox.codec`.
"""
