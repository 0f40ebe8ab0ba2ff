"""Answers: one module a question, computed from a population."""
