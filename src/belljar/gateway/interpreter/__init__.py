"""The code_interpreter tool: declared to a model, run in a container, told in words, pictures and files."""

from belljar.gateway.interpreter.tool import NAME, Interpreter, Ran

__all__ = ["NAME", "Interpreter", "Ran"]
