// A site that has read some APIs wants more: may it? Ask gate(["A", "B"], ["C"]).
// The answer and its reason are those of `fpmonitor gate`; `decision` is any decision file.
const within = (inner, outer) => inner.every((api) => outer.includes(api));

export function gate(have, want, decision = DECISION) {
  const known = decision.policy.candidates;
  const called = (api) => known.filter((name) => decision.names?.[name] === api);
  const candidates = (api) => (known.includes(api) || !called(api).length ? [api] : called(api));
  const asked = [...new Set([...have, ...want].flatMap(candidates))];
  for (const api of asked.sort()) {
    if (!known.includes(api)) throw new RangeError(`unknown candidate ${JSON.stringify(api)}`);
  }
  const answer = (verdict, because) => ({ verdict, because });
  const blocked = decision.block.find((apis) => within(apis, asked));
  if (blocked) return answer("block", blocked);
  const lacking = asked.filter((api) => api in (decision.no_evidence ?? {}));
  if (lacking.length) return answer("no evidence", lacking);
  const allowed = decision.allow.find((apis) => within(asked, apis));
  if (allowed) return answer("allow", allowed);
  const open = decision.undecided.find((apis) => within(apis, asked));
  if (open) return answer("undecided", open);
  if (!asked.length) return answer("allow", []);
  return answer(decision.complete ? "undecided" : "unknown", []);
}

export const DECISION = /* lists of the decision */ null;
