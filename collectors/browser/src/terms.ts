/** The study and the ask: who may be shown what; their rules are those of the Python client. */

import { byCodePoint } from "./canonical";
import { hexadecimal } from "./records";
import { MAX_MATRIX_CELLS, type Randomisation, flawOf, isUnary } from "./randomise";

export interface RedactionRule {
  /** Tokens that are sent; every other becomes `redacted`. */
  keep: string[];
  /** Probability with which a kept token becomes `redacted` too. */
  cover: number;
}

export type TokenRandomisation = Randomisation & { values: string[] };

export interface Terms {
  /** First 16 bytes of the SHA-256 of the file of the study, and of that of the ask. */
  studyId: Uint8Array;
  askId: Uint8Array;
  reportBytes: number;
  recipient: "curator" | "analyst";
  sets: string[][];
  redact: Map<string, RedactionRule>;
  randomise: Map<string, TokenRandomisation>;
  epoch: number;
  /** Requests for the analyst that a visitor answers in an epoch. */
  releases: number;
}

const DIGEST_BYTES = 33;
const ID_BYTES = 16;
const REPORT_HEAD_BYTES = ID_BYTES + 3;
const MAX_REPORT_BYTES = 60_000;
const MAX_TOKENS = 255;
const MAX_SETS = 65_536;

/** Read the files of a study and of an ask; throws where users of the study may not answer it. */
export async function termsOf(studyText: string, askText: string): Promise<Terms> {
  const study = objectOf(studyText, "fpmonitor-study-1");
  const ask = objectOf(askText, "fpmonitor-ask-1");
  const studyId = await idOf(studyText);
  const problem = problemOf(study, ask, hexadecimal(studyId));
  if (problem) throw new RangeError(`seal: ${problem}`);
  if (ask.recipient == "analyst" && !(await isSigned(askText, ask.promise.signature, study.curator_key)))
    throw new RangeError("seal: the curator of the study did not sign the ask");
  return {
    studyId,
    askId: await idOf(askText),
    reportBytes: study.report_bytes,
    recipient: ask.recipient,
    sets: ask.sets,
    redact: new Map(Object.entries(ask.redact)),
    randomise: new Map(Object.entries(ask.randomise)),
    epoch: ask.epoch,
    releases: study.releases,
  };
}

/** Longest token, bytes of UTF-8, that a report on so many APIs has room for. */
export function tokenLimit(reportBytes: number, apis: number): number {
  return Math.floor((reportBytes - REPORT_HEAD_BYTES) / apis) - 2;
}

async function idOf(text: string): Promise<Uint8Array> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(digest, 0, ID_BYTES);
}

function objectOf(text: string, format: string): any {
  const content = JSON.parse(text);
  if (content?.format != format) throw new RangeError(`seal: no file of the form ${format}`);
  return content;
}

/** What is wrong with the question, or nothing. */
function problemOf(study: any, ask: any, studyId: string): string | undefined {
  const { apis, report_bytes: size, largest_set: largestSet } = study;
  if (!isSet(apis) || apis.length > MAX_TOKENS) return "the study names no APIs, sorted, each once";
  if (!isWhole(size, (DIGEST_BYTES + 2) * apis.length + REPORT_HEAD_BYTES) || size > MAX_REPORT_BYTES)
    return "a report of the study has no room for its tokens";
  if (!isWhole(largestSet, 1)) return "the study allows no set";
  if (ask.study != studyId) return "the ask belongs to another study";
  const sets: string[][] = ask.sets;
  if (!Array.isArray(sets) || !sets.every(isSet) || !sets.length || sets.length > MAX_SETS || repeats(sets))
    return "the ask names no sets, sorted, each once";
  if (!isWhole(study.largest_release, 1) || !isWhole(study.releases, 1)) return "the study allows no release";
  if (!sets.every((set) => set.every((api) => apis.includes(api))))
    return "the ask names APIs that the study does not";
  const isLarger = (most: number) => sets.some((set) => set.length > most);
  if (!isWhole(ask.round, 1) || !isWhole(ask.epoch, 0)) return "the epoch or the round is no number";
  if (!["curator", "analyst"].includes(ask.recipient)) return "the ask has no recipient";
  const isAnalyst = ask.recipient == "analyst";
  if (isAnalyst ? sets.length > 1 || isLarger(study.largest_release) : isLarger(largestSet))
    return "the ask shows its recipient more than the study allows";
  const upper = ask.promise?.upper;
  if (isAnalyst && !(upper >= 0 && upper <= study.budget)) return "the ask promises no exposure within the budget";
  if (!Object.values(ask.redact).every(isRedaction)) return "a rule of redaction is none";
  const randomised = Object.values(ask.randomise);
  if (!randomised.every(isRandomisation)) return "a randomisation is none";
  if (randomised.length && !sets.every((set) => isDecodable(set.map((api) => ask.randomise[api]))))
    return "APIs are randomised together by small matrices only, and none beside plain ones";
  const room = tokenLimit(size, 1);
  const isLong = (token: string) => new TextEncoder().encode(token).length > room;
  const longest = (plan: any) => isUnary(plan.mechanism) && plan.values.length >= room;
  if (randomised.some((plan: any) => longest(plan) || plan.values.some(isLong)))
    return "a report of the study has no room for what is randomised";
  if (Object.values(ask.redact).some((rule: any) => rule.keep.some(isLong)))
    return "a report of the study has no room for a value that is kept";
  return undefined;
}

/** Whether the curator signed the file of the ask, the signature in it being empty then. */
async function isSigned(askText: string, signature: unknown, curatorKey: unknown): Promise<boolean> {
  if (!isHexadecimal(signature, 64) || !isHexadecimal(curatorKey, 32)) return false;
  const key = await crypto.subtle.importKey("raw", bytesOf(curatorKey), "Ed25519", false, ["verify"]);
  const message = new TextEncoder().encode(askText.replace(signature, ""));
  return crypto.subtle.verify("Ed25519", key, bytesOf(signature), message);
}

function isHexadecimal(text: unknown, bytes: number): text is string {
  return typeof text == "string" && text.length == 2 * bytes && /^[0-9a-f]*$/.test(text);
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g)!, (digits) => parseInt(digits, 16));
}

function isSet(names: unknown): boolean {
  return (
    isTexts(names) &&
    names.length > 0 &&
    names.every((name, index) => !index || byCodePoint(names[index - 1]!, name) < 0)
  );
}

function isRedaction(rule: any): boolean {
  return isTexts(rule.keep) && rule.cover >= 0 && rule.cover < 1;
}

function isRandomisation(plan: any): boolean {
  return isTexts(plan.values) && new Set(plan.values).size == plan.values.length && !flawOf(plan);
}

/** Whether reports on a set can be decoded: of one API any, of several by the product of their matrices. */
function isDecodable(plans: any[]): boolean {
  if (plans.length == 1) return true;
  if (!plans.every(Boolean)) return false;
  const reports = (plan: any) => (plan.mechanism == "grr" ? plan.values : plan.matrix)?.length ?? Infinity;
  return plans.reduce((cells, plan) => cells * reports(plan) * plan.values.length, 1) <= MAX_MATRIX_CELLS;
}

function isTexts(names: unknown): names is string[] {
  return Array.isArray(names) && names.every((name) => typeof name == "string");
}

function isWhole(number: unknown, least: number): boolean {
  return Number.isInteger(number) && (number as number) >= least;
}

function repeats(sets: string[][]): boolean {
  return new Set(sets.map((set) => JSON.stringify(set))).size < sets.length;
}
