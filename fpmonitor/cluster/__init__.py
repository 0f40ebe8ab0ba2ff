"""Distributed engines: users beyond one machine."""
