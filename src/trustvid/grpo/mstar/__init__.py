"""Estimators of m*: how many sub-queries a question needs. Config group ``mstar``."""
