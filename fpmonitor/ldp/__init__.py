"""Local differential privacy (LDP): mechanisms, what they leak, and what can be estimated.

Source of the metrics: Lopuhaä-Zwakenberg, Škorić and Li (2019), "Information-theoretic metrics for
Local Differential Privacy protocols", arXiv:1910.07826; below "LDP metrics". Everything is in nats.
"""
