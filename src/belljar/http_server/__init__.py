"""One HTTP server for everything of ours that listens: requests in, values out, sent in one place.

Owns how a request is read (head, body, query, forms), how a path finds its handler, how the values that handlers
return are sent, and how uvicorn is run. Handlers return `Reply` or `Stream` and never see the connection. Does not know
whose requests these are, nor what is asked: that is the business of `gateway.server` and `sandbox.server`.
"""
