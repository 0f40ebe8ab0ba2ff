// Fills the parts of the page, and asks anew when a slider, a tick or a column is changed.
const ask = document.getElementById("ask");
const answer = document.getElementById("answer");
const asked = new Map(); // part -> what is under way for it

async function fill(part, address, options = {}) {
  asked.get(part)?.abort();
  const control = new AbortController();
  asked.set(part, control);
  part.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(address, { ...options, signal: control.signal });
    part.innerHTML = await response.text();
    label(part);
    // What was counted is there at once; limits of a new question take longer.
    const then = part.querySelector("[data-then]");
    if (then) return fill(part, then.dataset.then);
    part.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name === "AbortError") return;
    part.removeAttribute("aria-busy");
    part.textContent = "fpmonitor does not answer: is it still running in the terminal?";
  }
}

// On a narrow screen each row is a card, whose cells say which column they are of.
function label(part) {
  for (const table of part.querySelectorAll("table")) {
    const names = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, at) => (cell.dataset.label = names[at]));
    }
  }
}

function query() {
  const fields = new URLSearchParams(new FormData(ask));
  for (const name of ["n", "given"]) if (!fields.get(name)) fields.delete(name);
  return fields;
}

// What is said beside each API is for the k that was asked for.
async function beside(fields) {
  const response = await fetch(`/alone.json?${fields}`);
  if (!response.ok || String(fields) !== String(query())) return;
  const told = await response.json();
  for (const box of ask.querySelectorAll("[name=api]")) {
    box.parentElement.querySelector(".small").textContent = told[box.value] ?? "–";
  }
}

function explore(event) {
  if (!answer) return;
  const fields = query();
  if (event?.target.name === "k") void beside(fields);
  history.replaceState(null, "", `/?${fields}${location.hash}`);
  if (fields.has("api")) return fill(answer, `/exposure?${fields}`);
  asked.get(answer)?.abort();
  answer.innerHTML = "<p>Nothing is ticked yet.</p>";
}

function tick(on) {
  for (const box of ask.querySelectorAll("[name=api]")) box.checked = on;
  explore();
}

label(document);
for (const part of document.querySelectorAll("[data-from]")) {
  if (part.querySelector(".waits")) void fill(part, part.dataset.from);
}
ask.addEventListener("change", explore);
ask.addEventListener("submit", (event) => event.preventDefault());
const field = (name) => ask.elements[name];
const range = document.getElementById("n-range"); // the logarithm of n
const site = () => Number(field("n").value.replace(/[,_\s]/g, "") || field("n").placeholder) || 0;

// The words below the sliders, as `words_of` has them.
function say() {
  const users = site();
  const numbers = {
    k: field("k").value - 1,
    budget: Math.round((users * field("budget").value) / 100),
    n: Math.max(1, Math.round(users / field("k").value)),
  };
  for (const [name, number] of Object.entries(numbers)) {
    const words = document.getElementById(`${name}-words`);
    if (users || name === "k") words.textContent = words.dataset.words.replace("{}", number.toLocaleString("en"));
  }
}

if (site()) range.value = Math.log10(site());
ask.addEventListener("input", (event) => {
  const { id, name, value } = event.target;
  if (id === "n-range") field("n").value = Number((10 ** value).toPrecision(1));
  if (name === "n" && site()) range.value = Math.log10(site());
  const shown = ask.querySelector(`output[for="${CSS.escape(id)}"]`);
  if (shown) shown.value = value + (name === "budget" ? " %" : "");
  say();
});
document.getElementById("all")?.addEventListener("click", () => tick(true));
document.getElementById("none")?.addEventListener("click", () => tick(false));
document.getElementById("decide")?.addEventListener("submit", (event) => {
  event.target.elements.asked.value = query();
  event.target.querySelector("button").textContent = "Deciding …";
});
const account = document.getElementById("account");
account?.addEventListener("change", (event) => {
  // Focus comes back to what was changed, as the table is a new one.
  const { name, value } = event.target;
  const form = new URLSearchParams(new FormData(document.getElementById("reading")));
  void fill(account, "/account", { method: "POST", body: form }).then(() => {
    const found = [...account.querySelectorAll(`[name="${CSS.escape(name)}"]`)];
    (found.find((one) => one.value === value) ?? found[0])?.focus();
  });
});
