"""`requirements`: fetch wheels outside the jail, and mount them read-only inside.

Owns what a caller may ask for (`requirements`), how uv is run and its words explained (`fetch`), and the store of
layers (`store`); and what is installed of the data stack (`stack`). Does not mount anything nor touch `sys.path`: the
jail binds `LayerStore.layers` read-only and the guest appends one layer to its path. Called by `sandbox.local`; reads
no environment, `env` is handed in. `store` is imported by whoever needs it, since it loads on Linux and macOS only.
"""

from belljar.sandbox.packages.fetch import LayerPolicy, Pin
from belljar.sandbox.packages.requirements import Installed, find_unrequested, list_installed
from belljar.sandbox.packages.stack import Stack

__all__ = ["Installed", "LayerPolicy", "Pin", "Stack", "find_unrequested", "list_installed"]
