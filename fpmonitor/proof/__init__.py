"""Proves a decision file again from the file alone: in ball arithmetic, without other code of ours.

A proof in a decision file holds designs, with weights `share` that add up to 1 at most. Each has a
score `S_i = sum_v c_v w_i(c_v)` of `m` users, and says: `exp(sign S_i - price_i)` is an e-value. So
is their weighted sum, which decides a set where it reaches what the level of its size asks for.
All that this rests on is proved here from the numbers in the file, each taken as the exact number
that it is; theorems and names are those of docs/certificate.md:

* line: `ln E exp(sign phi(C)) <= p (slope F(p) + intercept)` for `C ~ Poisson(mean p)`, all p <= 1,
  where `p F(p)` is the worst of all shares between two `factors` times p, at most the budget where
  the design is `capped`, and `C` is 0 but for a `value_share` of the values where only these are
  looked at;
* clock: `factor * sum_i w_i P(Bin(m, f_i) = r) <= P(Poisson(mean) = r)` for all r <= m;
* table: `scale w(c) c` is on the safe side of `sum_i w_i sign ln E exp(sign phi(Bin(c, f_i)))`;
* levels: `nats` of each size, from delta, the bases and the number of sets; in files of before the
  `limits` of the score of the one design, from the line at the budget, the factor and what is
  charged besides;
* average: where a realised share is promised, that most populations of the average keep it;
* question: the proof is of the question and the number of users that the file names.

Count spectra then give every verdict. A step that can neither be proved nor refuted with the work
that is allowed counts as not proved. What no file can show is that its numbers were fixed before
the users were seen: they follow from the question, and `decide` finds them again.
"""
