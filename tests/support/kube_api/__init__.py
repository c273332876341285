"""A Kubernetes API server for tests, true to what a real one was heard to answer.

``tests/adapters/drain/test_kube_transcripts.py`` holds it to the recorded exchanges.
"""
