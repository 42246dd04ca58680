"""Models behind the gateway: one transport, one small adapter a dialect, and the built-in model."""
