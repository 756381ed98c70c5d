"""What the trained modules share: optimiser, order of the data, checkpoints, records."""
