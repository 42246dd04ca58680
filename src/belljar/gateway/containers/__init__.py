"""Containers: an id, a life and files; held now and then by a sandbox."""

from belljar.gateway.containers.lease import Lease
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.registry import Containers
from belljar.gateway.containers.workspace import LeftOut

__all__ = ["Containers", "Lease", "LeftOut", "Policy"]
