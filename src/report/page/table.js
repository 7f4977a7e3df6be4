/* table.js - builds elements from text, and the table of the holders of memory at one instant. */

const $ = (id) => document.getElementById(id);

/* make("td", {className: "amount"}, "12"): text is always text, never markup. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
function factList(facts) {
  return make("dl", { className: "facts" },
    ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}
function titled(i) {
  return make("h2", {}, dot(groupOf(i)), make("span", {}, itemName(i) || "(no name)"));
}

/* --- holders --- */

const ROWS_MOST = 400;
const order = { column: "bytes", down: true };
const COLUMNS = [
  { key: "name", title: plan.item ? "tensor" : "buffer", of: (row) => itemName(row.item) },
  { key: "op", title: "operator", of: (row) => shortType(item.step[row.item]), model: true },
  { key: "shape", title: "shape", of: (row) => itemShape(row.item), model: true },
  { key: "dtype", title: "type", of: (row) => itemType(row.item), model: true },
  { key: "bank", title: bankWord, of: (row) => banks[body.bank[row.body]].name, many: true },
  { key: "offset", title: "address", of: (row) => BigInt(cell(plan.body.offset, row.body)),
    amount: true, model: false },
  { key: "bytes", title: "bytes", of: (row) => row.bytes, amount: true },
].filter(({ model, many }) => (model === undefined || model === plan.step.count > 0) &&
  (!many || banks.length > 1));
let holders = [];

function showMoment(time) {
  state.time = time;
  state.range = null;
  holders = curve.count ? holdersAt(time) : [];
  const what = stepText(time), live = liveAt(time);
  const buffers = `${grouped(holders.length)} ${holders.length === 1 ? "buffer" : "buffers"}`;
  $("moment").textContent = curve.count
    ? `${time === peakTime ? "At the peak: " : "At "}${momentText(time)}${what ? `, ${what}` : ""}`
    : "Nothing is live at any time";
  $("total").textContent = curve.count
    ? `${bytesText(live)} live in ${buffers}, ${bytesText(holesAt(time, live))} of holes` : "";
  showOperands(time);
  showSums();
  showRows();
  redraw(false);
  keepAddress();
}

/* The totals of the rows, by the groups that colour them. */
function showSums() {
  const sums = new Map();
  for (const row of holders) {
    const group = groupOf(row.item);
    sums.set(group, (sums.get(group) || 0n) + row.bytes);
  }
  const most = [...sums].sort(([, a], [, b]) => (a < b ? 1 : -1));
  $("sums").replaceChildren(...(most.length < 2 ? [] : most.slice(0, 8).map(([group, bytes]) =>
    make("span", { title: `${grouped(bytes)} bytes` }, dot(group), way.entries[group].words, " ",
      make("b", {}, iec(bytes))))));
}

function rowLine(row) {
  const line = make("tr", { tabIndex: 0 }, ...COLUMNS.map(({ key, of: value, amount }) => {
    const words = amount ? grouped(value(row)) : value(row);
    const content = make("td", { title: words, className: amount ? "amount" : key });
    if (key === "name") content.append(dot(groupOf(row.item)));
    content.append(key === "name" ? shortened(words, 64) : words);
    return content;
  }));
  line.dataset.item = row.item;
  line.setAttribute("aria-selected", String(row.item === state.selected));
  const choose = () => { select(row.item); reveal(row.item); };
  line.addEventListener("click", choose);
  line.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  });
  return line;
}

function showRows() {
  const { of } = COLUMNS.find(({ key }) => key === order.column);
  const sign = order.down ? -1 : 1;
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  holders.sort((a, b) => sign * compare(of(a), of(b)) || a.body - b.body);
  $("rows").replaceChildren(...holders.slice(0, ROWS_MOST).map(rowLine));
  const rest = holders.length - ROWS_MOST;
  $("more").textContent = rest > 0 ? `and ${grouped(rest)} more` : "";
  for (const head of $("columns").children) {
    const chosen = head.dataset.key === order.column, arrow = order.down ? " \u2193" : " \u2191";
    const { title } = COLUMNS.find(({ key }) => key === head.dataset.key);
    head.setAttribute("aria-sort", chosen ? (order.down ? "descending" : "ascending") : "none");
    head.firstChild.textContent = chosen ? title + arrow : title;
  }
}

function showColumns() {
  $("columns").replaceChildren(...COLUMNS.map(({ key, amount }) => {
    const button = make("button", { type: "button" });
    button.addEventListener("click", () => {
      order.down = order.column === key ? !order.down : Boolean(amount);
      order.column = key;
      showRows();
    });
    const head = make("th", { scope: "col", className: amount ? "amount" : key }, button);
    head.dataset.key = key;
    return head;
  }));
}
