"""Local differential privacy: mechanisms, what they give away, and what can be learnt from them.

Source of the metrics: Lopuhaä-Zwakenberg, Škorić and Li (2019), "Information-theoretic metrics for
Local Differential Privacy protocols", arXiv:1910.07826; below "LDP metrics". Everything is in nats.
"""
