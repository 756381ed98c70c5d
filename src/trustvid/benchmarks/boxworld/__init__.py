"""BoxWorld: seeded videos of a box city and of a room, with the paper's eight tasks and exact answers (DESIGN 7)."""
