// Data: simulate a city, register files of this machine, and inspect them.

import { get, post, remove } from "../api.js";
import { go } from "../app.js";
import { button, choices, el, field, input, ownerOnly, say, select, table, text, tiles, whole } from "../dom.js";
import { float32s } from "../report/format.js";
import { Plane, ZoneMap } from "../report/map.js";
import { runInPlace } from "./run.js";

const ROLES = ["user", "time", "site", "lon", "lat", "x", "y", "trip"];

export async function open(root, { state, what }) {
  const stop = new AbortController(), ledger = await get("/ledger");
  root.replaceChildren(
    text("h1", "Data"),
    text("p", "A release is made from records of where people were. The records stay on this machine; the page reads only the folder named above.", "lead"),
    hero(state, stop),
  );
  const detail = el("div");
  root.append(el("div", { class: "side" }, el("div", {}, sourceList(state, what), register(ledger.populations.map((each) => each.name).filter((name) => !state.cities.some((city) => name === `simulated-${city.name}`)))), detail));
  const chosen = state.sources.find((each) => each.id === what) || state.sources.at(-1);
  if (chosen) await showSource(detail, state, chosen.id, stop);
  else detail.append(el("div", { class: "panel soft" }, text("p", "There is no source yet. Simulate a town above, or register your own files.", "empty")));
  return () => stop.abort();
}

function hero(state, stop) {
  const progress = el("div");
  const start = async (city) => {
    const run = await post("/simulate", { city });
    const ended = await runInPlace(progress, run, stop.signal);
    if (ended && ended.status === "done") { say("The city is ready. Choose what to publish."); go("plan", ended.result.source); }
  };
  const others = state.cities.filter((each) => each.name !== "town");
  return el("section", { class: "panel hero" },
    el("div", {},
      text("h2", "Try with a simulated city"),
      text("p", `This simulates ${whole(state.cities[0].users)} people with two weeks of phone events, zones and antennas. It takes about ten seconds; then you plan a release.`),
      el("p", { class: "note" }, "For other kinds of release: ", others.map((each) => button(each.title, () => start(each.name), { class: "text" }))),
      progress),
    button("Simulate a town", () => start("town"), { class: "main" }));
}

function sourceList(state, what) {
  const list = el("ul", { class: "list" });
  for (const each of [...state.sources].reverse()) {
    list.append(el("li", {}, el("button", { class: "pick", type: "button", "aria-pressed": String(each.id === what), onclick: () => go("data", each.id) },
      el("strong", {}, each.name), el("div", { class: "note" }, each.simulated ? "simulated · " : "", titles(state, each)))));
  }
  return el("section", { class: "panel" }, text("h2", "Sources"), state.sources.length ? list : text("p", "There is no source yet.", "note"));
}

const titles = (state, source) => state.kinds.filter((kind) => source.kinds.includes(kind.name)).map((kind) => kind.title.toLowerCase()).join(", ");

async function showSource(detail, state, id, stop) {
  let source;
  try { source = await get(`/sources/${id}`); } catch (error) {
    detail.replaceChildren(el("div", { class: "panel" }, el("div", { class: "notice bad" }, `${error.message} ${error.remedy}`), forget(id)));
    return;
  }
  const roles = Object.entries(source.understood).map(([role, { name, type }]) => [role, name, type]);
  const checked = el("div");
  const canvas = el("canvas", { "aria-label": "Map of the public zones and sites" });
  const mapBox = el("div", { class: "map-box small" }, canvas);
  detail.replaceChildren(
    el("section", { class: "panel" },
      el("div", { class: "row apart" }, text("h2", source.name), button("Plan a release of it", () => go("plan", id), { class: "main" })),
      el("p", { class: "note" }, `${source.files} ${source.format} file(s); a row is a ${source.shape}. Possible releases: ${titles(state, source)}.`),
      el("div", { class: "two" },
        el("div", {}, text("h3", "Columns"), table(["role", "column", "type"], roles),
          source.guessed.length ? el("p", { class: "note" }, `Guessed: ${source.guessed.join("; ")}.`) : null,
          el("p", { class: "note" }, `All columns of the files: ${source.names.join(", ")}.`)),
        el("div", {}, text("h3", "Public map"), mapBox)),
      el("div", { class: "row" },
        button("Check every row", async () => showCheck(checked, await runInPlace(checked, await post(`/sources/${id}/check`), stop.signal))),
        text("span", "This check is for the owner. It costs no budget and publishes nothing.", "note"), forget(id)),
      checked));
  await drawMap(mapBox, canvas, id);
}

const forget = (id) => button("Forget this source", async () => { if (!window.confirm("Forget this source? Its files are not deleted.")) return; await remove(`/sources/${id}`); go("data"); window.dispatchEvent(new HashChangeEvent("hashchange")); }, { class: "text" });

async function drawMap(box, canvas, id) {
  const places = await get(`/sources/${id}/map`).catch(() => null);
  if (!places || !places.box) { box.replaceChildren(text("p", "This source has no zones and no sites. The area is set in the plan.", "empty")); return; }
  const dots = places.sites ? float32s(places.sites.xy) : new Float32Array();
  const drawDots = (context, place) => {
    context.fillStyle = "#c04f00";
    for (let i = 0; i < dots.length; i += 2) { const [x, y] = place(dots[i], dots[i + 1]); context.fillRect(x - 1.5, y - 1.5, 3, 3); }
  };
  if (places.zones) {
    const map = new ZoneMap(canvas, places.zones), [west, south, east, north] = places.box;
    map.over = (context) => drawDots(context, (x, y) => [
      map.left + ((x - west) / (east - west)) * map.zones.width * map.scale, map.top + ((north - y) / (north - south)) * map.zones.height * map.scale]);
    map.draw();
  } else {
    const plane = new Plane(canvas, places.box, Math.abs(places.box[0]) > 360);
    plane.paint = (context) => drawDots(context, (x, y) => plane.at(x, y));
    plane.draw();
  }
  const zones = places.zones ? `${whole(places.zones.ids.length)} zones` : "", sites = places.sites ? `${whole(places.sites.count)} sites (orange)` : "";
  box.after(text("p", [zones, sites].filter(Boolean).join(", "), "note"));
}

function showCheck(node, run) {
  if (!run || run.status !== "done") return;
  const check = run.result;
  node.replaceChildren(el("div", { class: check.bad_rows ? "notice bad" : "notice good" },
    ownerOnly(), ` ${whole(check.rows)} rows, ${whole(check.bad_rows)} of them bad. ${check.remedy}`),
    tiles([["Rows", whole(check.rows)], ["Bad rows", whole(check.bad_rows)], ["Users", whole(check.users)], ["First (UTC)", (check.first || "–").slice(0, 16)], ["Last (UTC)", (check.last || "–").slice(0, 16)]]));
  if (check.reasons.length) node.append(table(["reason", "rows", "what it means"], check.reasons.map((each) => [each.reason, whole(each.rows), each.meaning + each.where]), [1]));
}

function register(populations) {
  const form = {
    name: input("", { placeholder: "required; such as Phone events of March", required: true }), paths: input("", { placeholder: "required; such as events/*.parquet", required: true }),
    zones: input("", { placeholder: "such as zones.geojson" }), sites: input("", { placeholder: "such as sites.csv" }),
    time_zone: input("", { placeholder: "such as Europe/Paris" }), start: input("", { placeholder: "such as 2026-03-02" }), end: input("", { placeholder: "such as 2026-03-09" }),
    users: input("", { placeholder: "such as 200000", inputmode: "numeric" }), population: select([["", "choose later"], ...populations.map((name) => [name, name])], ""),
  };
  const columns = Object.fromEntries(ROLES.map((role) => [role, input("", { placeholder: "as guessed" })]));
  const bad = select([["stop", "stop and report them"], ["drop", "drop them"]], "stop");
  const files = el("div", { class: "files" });
  let target = "paths";
  const pick = choices([["paths", "Records"], ["zones", "Zones"], ["sites", "Sites"]], target, (value) => { target = value; }, "What a click on a file fills in");
  const list = async (under) => {
    const entries = await get(`/files?under=${encodeURIComponent(under)}`);
    const lines = entries.map((each) => el("li", {}, each.folder
      ? button(`${each.name}/`, () => list(each.path), { class: "text" })
      : button(each.name, () => { form[target].value = each.path; }, { class: "text" })));
    if (under && target === "paths" && entries.some((each) => !each.folder)) lines.unshift(el("li", {}, button(`Use this folder: ${under} (${entries.filter((each) => !each.folder).length} files)`, () => { form.paths.value = under; }, { class: "text" })));
    if (under) lines.unshift(el("li", {}, button("up", () => list(under.includes("/") ? under.slice(0, under.lastIndexOf("/")) : ""), { class: "text" })));
    files.replaceChildren(el("ul", { class: "list" }, lines.length ? lines : text("li", "The folder is empty. Put your files there.", "note")));
  };
  const send = async () => {
    const valueOf = (control) => (control.value || "").trim() || null;
    const fields = Object.fromEntries(Object.entries(form).map(([name, control]) => [name, valueOf(control)]));
    const users = fields.users === null ? null : Number(fields.users.replace(/[ ,]/g, ""));
    if (users !== null && !Number.isInteger(users)) throw Object.assign(new Error("The number of people must be a whole number."), { remedy: "Enter an order of magnitude, for example 200000." });
    const named = Object.fromEntries(Object.entries(columns).map(([role, control]) => [role, valueOf(control)]).filter(([, name]) => name));
    if (!fields.name || !fields.paths) throw Object.assign(new Error("A source needs a name and files."), { remedy: "Fill in the first two fields." });
    const source = await post("/sources", { ...fields, paths: fields.paths.split(",").map((path) => path.trim()), users, columns: named, on_bad_row: bad.value });
    say("The source is registered. No row has been read yet.");
    go("data", source.id);
  };
  const panel = el("details", { class: "panel" }, el("summary", {}, "Register your own files"),
    text("p", "Files must lie in the page's folder. Only their headers are read now.", "note"),
    el("div", { class: "row" }, text("span", "A click on a file fills in:", "note"), pick), files,
    field("Name", form.name), field("Records", form.paths, "CSV or Parquet: a file, a folder, or a pattern like events/*.parquet"),
    field("Zones (public)", form.zones, "GeoJSON, GeoParquet, GeoPackage or shapefile. Without zones a grid is used."),
    field("Sites (public)", form.sites, "Coordinates of the antennas or stations that the records name"),
    field("Time zone", form.time_zone), el("div", { class: "two" }, field("Window from", form.start), field("to (not included)", form.end)),
    field("People, about", form.users, "Publicly known order of magnitude; never a count from the data"),
    field("Population", form.population, "Population whose budget pays for releases. Create one in the ledger view."),
    field("Bad rows", bad),
    el("details", {}, el("summary", {}, "Columns that were not guessed"), el("div", { class: "two" }, ROLES.map((role) => field(role, columns[role])))),
    el("p"), button("Register", send, { class: "main" }));
  panel.addEventListener("toggle", () => { if (panel.open && !files.childElementCount) list("").catch(() => {}); });
  return panel;
}
