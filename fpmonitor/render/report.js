"use strict";
const boxes = [...document.querySelectorAll("#filter input")];
const rows = [...document.querySelectorAll("#sets tbody tr")];
const shown = document.querySelector("#shown");
function filter() {
  const wanted = boxes.filter((box) => box.checked).map((box) => box.value);
  let count = 0;
  for (const row of rows) {
    const held = new Set(row.dataset.apis.split(" "));
    row.hidden = !wanted.every((api) => held.has(api));
    if (!row.hidden) count++;
  }
  shown.textContent = `${count} of the ${rows.length} shown`;
}
for (const box of boxes) box.addEventListener("change", filter);
if (boxes.length) filter();
