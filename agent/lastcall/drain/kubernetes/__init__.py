"""Cordon and eviction through the Kubernetes API: the client, the node, its pods, the Events."""
