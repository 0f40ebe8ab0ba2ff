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
    part.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name === "AbortError") return;
    part.removeAttribute("aria-busy");
    part.textContent = "fpmonitor does not answer: is it still running in the terminal?";
  }
}

function query() {
  const fields = new URLSearchParams(new FormData(ask));
  if (!fields.get("n")) fields.delete("n");
  return fields;
}

function explore() {
  if (!answer) return;
  const fields = query();
  history.replaceState(null, "", `/?${fields}${location.hash}`);
  if (fields.has("api")) return fill(answer, `/exposure?${fields}`);
  asked.get(answer)?.abort();
  answer.innerHTML = "<p>Nothing is ticked yet.</p>";
}

function tick(on) {
  for (const box of ask.querySelectorAll("[name=api]")) box.checked = on;
  explore();
}

for (const part of document.querySelectorAll("[data-from]")) {
  if (part.querySelector(".waits")) void fill(part, part.dataset.from);
}
ask.addEventListener("change", explore);
ask.addEventListener("submit", (event) => event.preventDefault());
ask.addEventListener("input", (event) => {
  const shown = event.target.type === "range" && event.target.parentElement.querySelector("output");
  if (shown) shown.value = event.target.value + (event.target.name === "budget" ? " %" : "");
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
