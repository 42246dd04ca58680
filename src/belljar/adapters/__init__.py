"""Prompts evaluated by a provider: adapters, and the workspaces they share."""

from belljar.adapters.base import ProviderAdapter

__all__ = ["ProviderAdapter"]
