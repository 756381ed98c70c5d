"""Tools that show frames to a vision-language policy."""
