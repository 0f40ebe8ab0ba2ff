/** Leave to read and to store: the visitor's signal, consent, storage. */

import { type Visitor, visitor } from "./visitor";

export interface Admission {
  /** Asked before anything is read or stored; only `true` is a yes. */
  consent: () => boolean | Promise<boolean>;
  /** Days after which the random id of this browser is replaced; 90 by default. */
  days?: number;
}

/** Why nothing happens: Global Privacy Control, no consent, no storage. */
export type Refusal = "gpc" | "consent" | "storage";

/** Give the visitor if we may, or why we may not. */
export async function admitted({ consent, days = 90 }: Admission): Promise<Visitor | Refusal> {
  if ((navigator as any).globalPrivacyControl) return "gpc";
  if ((await consent()) !== true) return "consent";
  try {
    return visitor(days);
  } catch {
    return "storage";
  }
}
