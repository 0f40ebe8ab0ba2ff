/** The page snippet: nothing happens before `fpmonitor.collect` is called and consent is given. */

import { type Options, collect } from "./collect";
import { forget } from "./visitor";

(window as any).fpmonitor = Object.freeze({
  collect: (options: Options) => collect(options),
  forget,
});
