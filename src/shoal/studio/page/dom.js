// Small pieces of the page. Text is always text, never HTML, whatever a zone or a file is called.

export function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

export const text = (tag, words, className) => el(tag, { class: className }, words);
// What a release is good for, from public and published numbers, and what would help most.
export const verdict = (each) => each && el("div", { class: `notice verdict ${{ good: "good", usable: "good", "mostly noise": "bad" }[each.grade] || ""}` },
  el("strong", {}, each.grade ? `${each.grade[0].toUpperCase()}${each.grade.slice(1)}. ` : ""), each.summary,
  each.advice.length ? el("div", {}, "What would help most:", el("ul", {}, each.advice.map((way) => text("li", way)))) : null);
export const ownerOnly = () => el("span", { class: "owner", title: "Computed on raw data: for the owner's eyes only" }, "owner only");

// A button that shows when it works, and shows what went wrong.
export function button(words, act, options = {}) {
  const node = el("button", { type: "button", ...options }, words);
  node.addEventListener("click", async () => {
    node.disabled = true;
    try { await act(node); } catch (error) { complain(error); } finally { node.disabled = false; }
  });
  return node;
}

// What the page has to say, on top; errors stay until they are closed.
export function say(words, kind = "good", remedy = "") {
  const box = document.getElementById("notices");
  const note = el("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, el("div", {}, el("strong", {}, words), remedy ? ` ${remedy}` : ""));
  note.append(el("button", { class: "text", type: "button", onclick: () => note.remove() }, "Close"));
  box.replaceChildren(note);
  if (kind !== "bad") setTimeout(() => note.remove(), 8000);
  return note;
}

export function complain(error) {
  console.error(error);
  say(error.message, "bad", error.remedy || "");
}

export const quiet = () => document.getElementById("notices").replaceChildren();

// A labelled control with words below it.
export function field(label, control, note) {
  return el("label", { class: "field" }, label, control, note ? text("small", note) : null);
}

export function input(value, options = {}) {
  return el("input", { type: "text", value: value ?? "", autocomplete: "off", ...options });
}

export function select(choices, chosen, options = {}) {
  const node = el("select", options);
  for (const [value, words] of choices) node.append(el("option", { value, selected: String(value) === String(chosen) }, words));
  return node;
}

// A slider over a list of values; `words` says a value.
export function slider(values, chosen, words, changed, label) {
  const at = Math.max(0, values.reduce((best, value, i) => (Math.abs(value - chosen) < Math.abs(values[best] - chosen) ? i : best), 0));
  const shown = el("output", {}, words(values[at]));
  const range = el("input", { type: "range", min: "0", max: String(values.length - 1), step: "1", "aria-label": label });
  range.value = String(at);
  const tell = () => { shown.value = words(values[range.value]); range.setAttribute("aria-valuetext", shown.value); };
  tell();
  range.addEventListener("input", () => { tell(); changed(values[range.value]); });
  const line = el("span", { class: "field-line" }, range, shown);
  line.value = () => values[range.value];
  return line;
}

export function choices(options, chosen, changed, label) {
  const group = el("div", { class: "choices", role: "group", "aria-label": label });
  for (const [value, words] of options) {
    const one = el("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === one));
      changed(value);
    } }, words);
    group.append(one);
  }
  return group;
}

export function table(head, rows, numeric = []) {
  const cell = (tag, value, i) => el(tag, { class: numeric.includes(i) ? "number" : undefined }, value ?? "");
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((value, i) => cell("th", value, i)))),
    el("tbody", {}, rows.map((row) => el("tr", { class: row.chosen ? "chosen" : undefined }, row.map((value, i) => cell("td", value, i)))))));
}

export function tiles(pairs) {
  return el("dl", { class: "tiles" }, pairs.map(([name, value, note]) => el("div", { class: "tile" }, text("dt", name), el("dd", {}, value, note ? text("small", note) : null))));
}

// Shares of a budget as a bar: what is spent, what this would spend, what is left.
export function budgetBar(limit, spent, here = 0) {
  const share = (value) => `width:${Math.max(0, Math.min(100, (100 * value) / limit)).toFixed(2)}%`;
  const bar = el("div", { class: "bar", role: "img", "aria-label": `${(100 * spent / limit).toFixed(1)} % spent` });
  bar.append(el("i", { style: share(spent) }), el("i", { class: "this", style: share(here) }));
  return bar;
}

export const when = (iso) => (iso ? `${iso.slice(0, 16).replace("T", " ")} UTC` : "");
export const number = (value, digits = 4) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en", { maximumSignificantDigits: digits }));
export const tiny = (value) => (value && value < 0.001 ? Number(value).toExponential(0) : String(value));
export const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));
export const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`);
