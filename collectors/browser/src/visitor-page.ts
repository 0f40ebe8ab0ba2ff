/** The page "Am I one of them?": reads this browser and compares it with a table; it sends nothing. */

import { canonicalText } from "./canonical";
import { observe } from "./records";

interface Table {
  k: number;
  /** API -> what the snippet calls it, and the values that at least k users share; null where they say nothing. */
  apis: Record<string, { read: string; values: string[] | null; why: string }>;
  /** Sets of these APIs, and the combinations of values that at least k users share. */
  sets: { apis: string[]; values: string[][] }[];
}

const table: Table = JSON.parse(document.getElementById("table")!.textContent!);
const button = document.getElementById("look") as HTMLButtonElement;
const LONGEST = 80; // characters of a value that are shown

/** Value of an API as the table has it; nothing where it cannot be read here. */
async function own(name: string): Promise<string | undefined> {
  const found = await observe(name);
  if (!found || found.status == "error") return undefined;
  if (found.status == "undefined") return "u";
  const text = canonicalText(found.value);
  return text === undefined ? undefined : `v${text}`;
}

function say(row: HTMLElement, outcome: string, words: string, value = "") {
  row.querySelector(".answer")!.textContent = words;
  row.querySelector(".answer")!.className = `answer ${outcome}`;
  const shown = row.querySelector(".value");
  if (shown) shown.textContent = value.length > LONGEST ? value.slice(0, LONGEST - 1) + "…" : value;
}

async function look() {
  button.disabled = true;
  const crowd = `at least ${table.k}`;
  const mine = new Map<string, string | undefined>();
  for (const row of document.querySelectorAll<HTMLElement>("[data-api]")) {
    const api = row.dataset.api!;
    const { read, values, why } = table.apis[api]!;
    if (!values) {
      say(row, "", why);
      continue;
    }
    const value = await own(read);
    mine.set(api, value);
    const shown = value === undefined ? "" : value == "u" ? "undefined" : value.slice(1);
    if (value === undefined) say(row, "", "This browser gives no value here.");
    else if (values.includes(value)) say(row, "yes", `In a crowd of ${crowd}.`, shown);
    else say(row, "no", `Fewer than ${table.k} share it.`, shown);
  }
  for (const row of document.querySelectorAll<HTMLElement>("[data-set]")) {
    const { apis, values } = table.sets[+row.dataset.set!]!;
    const tuple = apis.map((api) => mine.get(api));
    if (tuple.includes(undefined)) say(row, "", "Not all of them can be compared here.");
    else if (values.some((one) => one.every((value, at) => value === tuple[at])))
      say(row, "yes", `In a crowd of ${crowd} with all of them.`);
    else say(row, "no", `Fewer than ${table.k} share all of them.`);
  }
  document.getElementById("done")!.textContent = "This browser was compared. Nothing was sent.";
  button.disabled = false;
}

button.addEventListener("click", () => void look());
