"""Where the examples of supervised fine-tuning come from (config group ``data``): one file for each kind of source."""
