"""Pixel work of the embedded tools: plain functions on arrays that know no contract."""
