"""Ways to keep work off a node and to move it away: one file a scheduler, unaware of each other."""
