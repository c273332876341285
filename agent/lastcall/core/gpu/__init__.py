"""How GPUs are judged: their words, the tables of what counts, and the judge. All of it pure."""
