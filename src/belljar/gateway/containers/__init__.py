"""Containers: an id, a life and files; held now and then by a sandbox."""

from belljar.gateway.containers.containers import Containers
from belljar.gateway.containers.hold import Held, find_sandboxes
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.use import Use
from belljar.gateway.containers.versions import Differences
from belljar.gateway.containers.workspace import LeftOut

__all__ = ["Containers", "Differences", "Held", "LeftOut", "Policy", "Use", "find_sandboxes"]
