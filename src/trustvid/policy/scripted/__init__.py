"""A policy without weights: it reads the rendered messages a VLM would read and answers by explicit geometry."""

from trustvid.policy.scripted.policy import ScriptedPolicy

__all__ = ["ScriptedPolicy"]
