// Keeps the dashboard up to date: live numbers while it is looked at, the answer for what is ticked.
const answer = document.getElementById("answer");
const form = document.querySelector("#explorer form");
const SECONDS = 5;

async function fragment(address, signal) {
  const response = await fetch(address, { signal });
  if (response.status === 401) location.reload();
  if (!response.ok && response.status !== 403) throw new Error(`${address}: ${response.status}`);
  return response.text();
}

// Leaves a part alone that has the keyboard's focus, and keeps its tables open.
async function refresh(name) {
  const part = document.getElementById(name);
  if (document.hidden || part.contains(document.activeElement)) return;
  const open = [...part.querySelectorAll("details[open]")].map((details) => details.id);
  part.innerHTML = await fragment(`/dashboard/${name}`);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
}

let asked = new AbortController();
async function explore() {
  asked.abort();
  asked = new AbortController();
  answer.classList.add("busy");
  const query = new URLSearchParams(new FormData(form));
  history.replaceState(null, "", `?${query}#explorer`);
  answer.innerHTML = await fragment(`/dashboard/explore?${query}`, asked.signal);
  answer.classList.remove("busy");
}

const quietly = (work) => () => void work().catch(() => {}); // the next turn asks again
for (const name of ["live", "apis"]) setInterval(quietly(() => refresh(name)), SECONDS * 1000);
if (form) {
  form.addEventListener("change", quietly(explore));
  form.addEventListener("reset", () => setTimeout(quietly(explore)));
  form.querySelector("button:not([type])").hidden = true; // without this script it asks
}
