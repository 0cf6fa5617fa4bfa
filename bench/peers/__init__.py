"""Peers: requirements of their environments, and how each is asked the same question."""
