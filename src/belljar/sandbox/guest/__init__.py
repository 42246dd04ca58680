"""Our code inside the sandbox: a stateful, notebook-like interpreter.

Owns what a cell sees and what is shown of it. Standard library only, imports nothing of Belljar, so that it can be
copied into any image. Does not confine anything: by the time it runs, the walls stand.
"""
