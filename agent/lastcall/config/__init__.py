"""The configuration: what can be set, where each value came from, and what is wrong with it.

``load.load`` merges defaults, file, environment and flags into a typed ``schema.Config``.
"""
