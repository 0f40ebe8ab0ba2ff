/** The random id of this browser at this site, and the answers that it gave. */

import { randomName } from "./records";

const KEY = "fpmonitor";
const DAY = 864e5; // milliseconds

export interface Visitor {
  user: string;
  /** Milliseconds since 1970 when the id expires. */
  until: number;
  /** Randomised reports: repeated draws would average the noise away. */
  reports: Record<string, unknown>;
  /** The session that began last, and when it began, milliseconds since 1970. */
  session?: [string, number];
  /** Lines of records that could not be delivered. */
  unsent?: string[];
  /** Asks that were answered, by their ids: the sealed uploads in base64 that are not delivered yet. */
  answered?: Record<string, string[]>;
  /** Ids of the asks for the analyst that were answered, by study and epoch. */
  released?: Record<string, string[]>;
}

/** Give the visitor that is stored, or store a new one; throws where storage is refused. */
export function visitor(days: number): Visitor {
  const now = Date.now();
  const known = stored();
  if (known.until > now) return known;
  return keep({
    user: randomName(),
    until: now + days * DAY,
    reports: {},
  });
}

/**
 * Give the id of the session: that of this tab as long as it is open, and in other tabs that of the last day.
 * It is bound to the visitor, so that it joins no two of them.
 */
export function sessionOf(known: Visitor): string {
  const [user, held] = (sessionStorage.getItem(KEY) || "").split(" ");
  const now = Date.now();
  const kept = stored();
  let [id, began] = kept.session ?? ["", 0];
  if (user == known.user) id = held!;
  else if (now - began > DAY) {
    id = randomName();
    keep({ ...kept, session: (known.session = [id, now]) });
  }
  sessionStorage.setItem(KEY, `${known.user} ${id}`);
  return id;
}

/** Give what is stored now: other tabs of the site may have changed it. */
export function stored(): Visitor {
  return JSON.parse(localStorage.getItem(KEY) || "{}");
}

export function keep(changed: Visitor): Visitor {
  localStorage.setItem(KEY, JSON.stringify(changed));
  return changed;
}

/** Forget the id and all that belongs to it. */
export function forget(): void {
  localStorage.removeItem(KEY);
  sessionStorage.removeItem(KEY);
}
