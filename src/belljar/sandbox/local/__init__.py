"""The local jail: sandboxes isolated by this host's Linux kernel.

Owns processes, namespaces, mounts, filters, limits and their end. Called by the public `Sandbox` classes, the gateway
and the CLI; knows no HTTP, no model. What runs inside the jail (`launcher`, `jail_init`, `zygote`, `init`,
`interpreter` and what they import) uses the standard library only.
"""
