"""Sandboxes from Kubernetes: a SandboxClaim of agent-sandbox for each, and the sandbox server in the pod that it gets.

The only room that knows Kubernetes. What is said to the pod is `sandbox.remote`'s.
"""

from belljar.sandbox.kubernetes.source import ClaimSource

__all__ = ["ClaimSource"]
