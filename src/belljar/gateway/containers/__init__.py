"""Containers: an id, a life and files; held now and then by a sandbox."""

from belljar.gateway.containers.container import Hosting, Use, find_sandboxes
from belljar.gateway.containers.containers import Containers
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.versions import Differences
from belljar.gateway.containers.workspace import LeftOut

__all__ = ["Containers", "Differences", "Hosting", "LeftOut", "Policy", "Use", "find_sandboxes"]
