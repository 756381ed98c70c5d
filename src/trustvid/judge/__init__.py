"""Judges: what of a response a rule is about, and what the response says to a checklist's questions.

A judge never sees the video and never gives a verdict on a rule: it extracts the text that a rule then checks, and
answers questions whose right answers it is not told. ``base`` holds the contract, one module each backend.
"""
