// gate(["A", "B"], ["C"]) says as `fpmonitor gate` whether a site that read A and B may read C.
const within = (inner, outer) => inner.every((api) => outer.includes(api));

// Unions are sets as all others; none that holds a refused one is allowed.
const unionsOf = (decision, verdict) => (decision.union_with ?? []).flatMap(({ apis, verdict: said }) => {
  const union = [...new Set([...decision.recommended, ...apis])].sort();
  const open = [...decision.block, ...decision.undecided].some((set) => within(set, union));
  return (open && said === "allow" ? "undecided" : said) === verdict ? [union] : [];
});

export function gate(have, want, decision = DECISION) {
  const { candidates } = decision.policy;
  const known = [...new Set([candidates, ...(decision.union_with ?? []).map((one) => one.apis)].flat())];
  const called = (api) => known.filter((name) => decision.names?.[name] === api);
  const meant = (api) => (known.includes(api) || !called(api).length ? [api] : called(api));
  const asked = [...new Set([...have, ...want].flatMap(meant))];
  for (const api of asked.sort())
    if (!known.includes(api)) throw new RangeError(`unknown candidate ${JSON.stringify(api)}`);
  const answer = (verdict, because) => ({ verdict, because });
  const sets = (verdict) => [...decision[verdict], ...unionsOf(decision, verdict)];
  const blocked = sets("block").find((apis) => within(apis, asked));
  if (blocked) return answer("block", blocked);
  const lacking = asked.filter((api) => Object.hasOwn(decision.no_evidence ?? {}, api));
  if (lacking.length) return answer("no evidence", lacking);
  const allowed = sets("allow").find((apis) => within(asked, apis));
  if (allowed) return answer("allow", allowed);
  const open = sets("undecided").find((apis) => within(apis, asked));
  if (open) return answer("undecided", open);
  if (!asked.length) return answer("allow", []);
  return answer(decision.complete && known.length === candidates.length ? "undecided" : "unknown", []);
}

export const DECISION = /* lists of the decision */ null;
