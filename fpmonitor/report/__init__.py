"""Tables of what was measured: one API set, all APIs."""
