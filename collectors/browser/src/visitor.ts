/** The random id of this browser at this site, and the answers that it gave. */

import { hexadecimal } from "./records";

const KEY = "fpmonitor";

export interface Visitor {
  user: string;
  /** Milliseconds since 1970 when the id expires. */
  until: number;
  /** Randomised reports: repeated draws would average the noise away. */
  reports: Record<string, unknown>;
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
    user: hexadecimal(crypto.getRandomValues(new Uint8Array(16))),
    until: now + days * 864e5,
    reports: {},
  });
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
}
