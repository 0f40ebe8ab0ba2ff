/** Tokens: what a user holds of an API, as text; the same rules as in the Python client. */

import { canonicalText } from "./canonical";
import { randomise, uniform } from "./randomise";
import { type Observation, digestOf, hexadecimal, observe, shortened } from "./records";
import { type RedactionRule, type Terms, type TokenRandomisation, tokenLimit } from "./terms";
import type { Visitor } from "./visitor";

const ABSENT = "absent";
const REDACTED = "redacted";

export interface Answer {
  /** For each set of the ask, in its order, the tokens of its APIs. */
  tokens: string[][];
  /** APIs that cannot be read in a page, or did not answer in time: `absent`. */
  unread: string[];
}

/** Read what is asked, and withhold what the ask says; randomised reports are kept in `known`. */
export async function answer(terms: Terms, known: Visitor): Promise<Answer> {
  const shown = new Map<string, string>();
  const unread: string[] = [];
  for (const api of new Set(terms.sets.flat())) {
    const plan = terms.randomise.get(api);
    const name = `seal:${await digestOf([api, plan])}`;
    let token = plan && (known.reports[name] as string | undefined);
    if (token === undefined) {
      const found = await observe(api);
      if (!found) unread.push(api);
      token = await fitting(await tokenOf(found), terms, 1);
      if (plan) token = known.reports[name] = randomised(token, plan);
    }
    const rule = terms.redact.get(api);
    shown.set(api, rule ? redacted(token, rule) : token);
  }
  const tokens = terms.sets.map((set) =>
    Promise.all(set.map((api) => fitting(shown.get(api)!, terms, set.length))),
  );
  return { tokens: await Promise.all(tokens), unread };
}

/** The token of an observation; what the store would refuse is absent. */
async function tokenOf(found: Observation | undefined): Promise<string> {
  if (found?.status != "value") return found?.status ?? ABSENT;
  const text = canonicalText(found.value);
  return text === undefined ? ABSENT : `=${await shortened(text)}`;
}

/** A token that a report on so many APIs has no room for, by a digest salted with the study. */
async function fitting(token: string, terms: Terms, apis: number): Promise<string> {
  const text = new TextEncoder().encode(token);
  if (text.length <= tokenLimit(terms.reportBytes, apis)) return token;
  const salted = new Uint8Array([...terms.studyId, ...text]);
  return `#${hexadecimal(new Uint8Array(await crypto.subtle.digest("SHA-256", salted), 0, 16))}`;
}

function redacted(token: string, { keep, cover }: RedactionRule): string {
  return !keep.includes(token) || uniform() < cover ? REDACTED : token;
}

function randomised(token: string, plan: TokenRandomisation): string {
  const report = randomise(token, plan) as string;
  return plan.mechanism == "grr" ? report : `=${report}`;
}
