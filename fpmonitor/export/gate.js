// A site that has read some APIs wants more: may it? Ask gate(["A", "B"], ["C"]).
// The answer and its reason are those of `fpmonitor gate`; `decision` is any decision file.
const within = (inner, outer) => inner.every((api) => outer.includes(api));

// A union that was tested with another decision's set is a set as all others; none is allowed that holds one that is not.
const unionsOf = (decision, verdict) => (decision.union_with ?? [])
  .map((one) => ({ said: one.verdict, apis: [...new Set([...decision.recommended, ...one.apis])].sort() }))
  .filter(({ said, apis }) => {
    const isOpen = said === "allow" && [...decision.block, ...decision.undecided].some((refused) => within(refused, apis));
    return (isOpen ? "undecided" : said) === verdict;
  })
  .map(({ apis }) => apis);

export function gate(have, want, decision = DECISION) {
  const { candidates } = decision.policy;
  const known = [...new Set([candidates, ...(decision.union_with ?? []).map((one) => one.apis)].flat())];
  const called = (api) => known.filter((name) => decision.names?.[name] === api);
  const meant = (api) => (known.includes(api) || !called(api).length ? [api] : called(api));
  const asked = [...new Set([...have, ...want].flatMap(meant))];
  for (const api of asked.sort()) {
    if (!known.includes(api)) throw new RangeError(`unknown candidate ${JSON.stringify(api)}`);
  }
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
