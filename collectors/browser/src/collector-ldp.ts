/** The page snippet with local differential privacy: values of some APIs leave randomised only. */

import { type Options, collect } from "./collect";
import { type Randomisation, randomise } from "./randomise";
import { type Observation, digestOf, observe } from "./records";
import { type Visitor, forget, keep } from "./visitor";

interface RandomisedOptions extends Options {
  /** APIs whose values leave the page randomised only. */
  randomised?: Record<string, Randomisation>;
}

/** Like `collect`; the APIs of `randomised` are sent as reports, drawn once in the life of the id. */
function collectRandomised(options: RandomisedOptions) {
  const { randomised = {}, apis = [] } = options;
  const ask = (api: string, known: Visitor) =>
    randomised[api] ? report(api, randomised[api], known) : observe(api);
  return collect({ ...options, apis: [...apis, ...Object.keys(randomised)] }, ask);
}

async function report(
  api: string,
  plan: Randomisation,
  known: Visitor,
): Promise<Observation | undefined> {
  const law = plan.matrix ? (await digestOf(plan)).slice(0, 8) : plan.epsilon;
  const name = `${api}${api.includes("#") ? "." : "#"}ldp.${plan.mechanism}.${law}`;
  if (!(name in known.reports)) {
    const found = await observe(api);
    if (!found) return undefined;
    known.reports[name] = randomise(found.status == "value" ? found.value : found.status, plan);
    keep(known);
  }
  return { api: name, status: "value", value: known.reports[name] };
}

(window as any).fpmonitor = Object.freeze({ collect: collectRandomised, forget, randomise });
