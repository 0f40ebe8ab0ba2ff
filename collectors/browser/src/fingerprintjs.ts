/** Results of FingerprintJS 5 (or 3 and 4), without their hash. */

export interface FingerprintResult {
  version?: string;
  components: Record<string, any>;
}

/** One record of a result; `only` names the components that may be sent. */
export function recordOf({ version, components }: FingerprintResult, only?: string[]): object {
  const kept: Record<string, unknown> = {};
  for (const name of only ?? Object.keys(components)) {
    const entry = components[name];
    // JSON would write an error as an empty object.
    if (entry) kept[name] = entry.error ? { ...entry, error: `${entry.error.message ?? entry.error}` } : entry;
  }
  return { version, components: kept };
}
