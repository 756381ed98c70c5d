"""Policies without weights: they read the rendered messages a VLM would read and answer by explicit geometry."""

from trustvid.policy.scripted.policy import ScriptedPolicy
from trustvid.policy.scripted.teacher import Teacher

__all__ = ["ScriptedPolicy", "Teacher"]
