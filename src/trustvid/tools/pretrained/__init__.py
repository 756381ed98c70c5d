"""Backends of tools that run a published model of the transformers library."""
