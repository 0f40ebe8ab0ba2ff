"""From spectra to a decision: search of the lattice of API sets, gate, utility."""
