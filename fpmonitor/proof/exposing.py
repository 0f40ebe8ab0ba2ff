"""The probability of a user to be exposed by the share of a value, in ball arithmetic."""

from __future__ import annotations

from flint import arb


class Exposing:
    """`F(p)` of `k` of a population, and the shares at which `p F(p)` rises."""

    k: int
    population: int

    def _most_exposed(self) -> arb:
        """Upper limit of `p F(p)`, which is concave up to k/n and falls from there on."""
        low, high = 0.0, self.k / self.population
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._slope(arb(middle)) > 0 else (low, middle)
        p = arb(low)
        # Concave up to k/n: a tangent bounds what is left of the way to the peak.
        return p * self._exposed(p) + abs(self._slope(p)) * self.k / self.population

    def _slope(self, p: arb) -> arb:
        """Slope of `p F(p)`, positive up to one share; -1 for what is negative beyond k/n.

        It falls up to k/n, and rises from there to where it is not positive, at 1.
        """
        if not p * self.population < self.k:
            return arb(-1)
        return self._exposed(p) - (self.k - 1) * self._on_the_border(p)

    def _on_the_border(self, p: arb) -> arb:
        """Probability of k - 1 among n - 1."""
        n, k = self.population, self.k
        ways = arb(n).lgamma() - arb(k).lgamma() - arb(n - k + 1).lgamma()
        return (ways + (k - 1) * p.log() + (n - k) * (1 - p).log()).exp()

    def _exposed(self, p: arb) -> arb:
        """Probability `F(p)` of a user with a value of probability p to be exposed."""
        if not p < 1:
            return arb(1 if self.k > self.population else 0)
        # Far beyond k/n a ball from 0 to Chernoff's bound is enough, as that is next to 0.
        gap = self.population * p - self.k
        if gap > 30 * self.k + 3000:  # Chernoff
            return arb(0.5, 0.5) * (-gap * gap / (2 * self.population * p)).exp()
        hidden = p.beta_lower(arb(self.k - 1), arb(self.population - self.k + 1), 1)
        return (1 - hidden).max(arb(0)).min(arb(1))
