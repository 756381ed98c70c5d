"""Seeded, temporally coherent corruptions on the source timeline: severity 1–5, coverage, one file per operator."""

from trustvid.corruption.base import SEVERITIES, Corruption, check_severity
from trustvid.corruption.clip import CorruptedClip, corrupt, touched_frames
from trustvid.corruption.image import apply_image

__all__ = ["SEVERITIES", "CorruptedClip", "Corruption", "apply_image", "check_severity", "corrupt", "touched_frames"]
