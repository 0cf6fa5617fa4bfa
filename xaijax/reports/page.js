// Sorting and searching of tables, and the choice of an instance. Without it all stands on the page.
const make = (tag, text = "") => Object.assign(document.createElement(tag), { textContent: text });
const number = (cell) => parseFloat(cell.textContent.replaceAll(",", "").replace("−", "-").replace("±", ""));

function sorted(rows, column, numeric, down) {
  const of = (row) => row.cells[column];
  const by = numeric
    ? (a, b) => number(of(a)) - number(of(b))
    : (a, b) => of(a).textContent.localeCompare(of(b).textContent);
  const lacking = (row) => numeric && Number.isNaN(number(of(row)));
  const known = rows.filter((row) => !lacking(row)).sort((a, b) => (down ? by(b, a) : by(a, b)));
  return [...known, ...rows.filter(lacking)];
}

function sortable(table) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button"), numeric = head.classList.contains("number");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const down = now ? now === "ascending" : numeric && column > 0;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...sorted(rows, column, numeric, down));
    });
  });
}

function searchable(table) {
  const rows = [...table.tBodies[0].rows], field = make("input"), label = make("label", "Search ");
  const line = make("p"), told = make("span");
  line.className = "search";
  field.type = "search";
  told.setAttribute("role", "status");
  label.append(field);
  line.append(label, " ", told);
  table.closest(".box").before(line);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    told.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  });
}

function picker(section) {
  const all = [...section.querySelectorAll("details")], choice = make("select");
  const label = make("label", "Instance "), line = make("p");
  line.className = "choice";
  label.append(choice);
  line.append(label);
  all.forEach((one) => choice.append(make("option", one.querySelector("summary").textContent)));
  const show = () => all.forEach((one, n) => {
    one.hidden = n !== choice.selectedIndex;
    one.open = !one.hidden;
  });
  choice.addEventListener("change", show);
  all[0].before(line);
  show();
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("table.searchable").forEach(searchable);
document.querySelectorAll(".instances").forEach(picker);
