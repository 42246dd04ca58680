"""The code_interpreter tool: declare it to a model, run its calls in a container, report text, pictures and files."""

from belljar.gateway.interpreter.tool import NAME, CellResult, Interpreter

__all__ = ["NAME", "CellResult", "Interpreter"]
