"""Where notices come from: one file a provider, unaware of each other, over one HTTP layer."""
