"""The built-in model `belljar`: runs the Python it is sent and tells what happened. Needs no key, does not think."""
