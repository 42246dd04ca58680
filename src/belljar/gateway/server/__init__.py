"""HTTP, SSE and WebSocket: the only room that knows the web."""
