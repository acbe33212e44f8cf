// Putting it together: one state (slot, layer, zone), and what is redrawn when it changes.

const FRAME_MS = 280;
const byId = (id) => document.getElementById(id);

function valueAt(report, layer, zone, slot) {
  const at = zone * report.slots + slot, { exact, released } = report.values;
  return layer === "difference" ? released[at] - exact[at] : report.values[layer][at];
}

// Correlations have a fixed scale, the same in every report, not one stretched to the zones at hand; below 0 is as bad
// as none.
function colourScales({ people, difference, mre }) {
  const ofPeople = peopleScale(people.end, people.most);
  return {
    released: ofPeople, exact: ofPeople,
    difference: scaleOf(DIFFERENCES, difference.end, { most: difference.most, signed: true, ticks: DIFFERENCE_TICKS }),
    mre: scaleOf(WORSE, mre.end, { most: mre.most, ticks: ERROR_TICKS, words: percent }),
    pearson: scaleOf([...WORSE].reverse(), 1, { below: true, ticks: ERROR_TICKS, words: (value) => value.toFixed(1) }),
  };
}

function start(report) {
  const state = { slot: 0, layer: "released", zone: -1, timer: 0 };
  const scales = colourScales(report.scales);
  const map = new ZoneMap(byId("map"), report.zones);
  map.colourOf = (zone) => scales[state.layer].at(valueAt(report, state.layer, zone, state.slot));

  let frame = 0, markersDue = 0;
  const redraw = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; map.draw(); }); };
  const moveMarkersSoon = () => {
    if (!markersDue) markersDue = setTimeout(() => { markersDue = 0; moveMarkers(report, state.slot); }, 90);
  };

  function setSlot(slot) {
    state.slot = Math.max(0, Math.min(report.slots - 1, slot));
    byId("slot").value = state.slot;
    byId("slot-label").textContent = report.slotLabels[state.slot];
    redraw();
    moveMarkersSoon();
  }

  function setLayer(layer) {
    state.layer = layer;
    const words = { released: "Released people", exact: "Raw people", difference: "Released minus raw" };
    byId("map-title").textContent = `${words[layer]} per zone`;
    for (const button of document.querySelectorAll("[data-layer]"))
      button.setAttribute("aria-pressed", String(button.dataset.layer === layer));
    byId("legend-title").textContent = `People per ${report.slotWord}`;
    drawLegend(byId("legend"), scales[layer]);
    redraw();
  }

  function setZone(zone) {
    state.zone = map.chosen = zone;
    for (const other of errors) { other.chosen = zone; other.draw(); }
    if (totalsDrawn) markTotal(report, zone);
    byId("zone").value = String(zone);
    byId("zone-name").textContent = zoneLabel(report.zones, zone);
    byId("zone-facts").textContent = zoneFacts(report, zone);
    seriesChart(report, zone, state.slot);
    redraw();
  }

  function setPlaying(playing) {
    clearInterval(state.timer);
    state.timer = playing ? setInterval(() => setSlot((state.slot + 1) % report.slots), FRAME_MS) : 0;
    byId("play").textContent = playing ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(playing));
  }

  const errors = errorMaps(report, scales, (zone) => setZone(zone));
  let totalsDrawn = false;
  fillZoneList(report, setZone);
  wireTime(report, state, setSlot, setPlaying);
  wirePointer(map, byId("tooltip"), redraw, setZone, (zone) => tooltipLines(report, zone, state.slot));
  for (const button of document.querySelectorAll("[data-layer]"))
    button.addEventListener("click", () => setLayer(button.dataset.layer));
  document.querySelectorAll(".slot-word").forEach((node) => { node.textContent = report.slotWord; });
  new ResizeObserver(() => { map.resize(); drawLegend(byId("legend"), scales[state.layer]); }).observe(byId("map-box"));

  setLayer("released");
  setSlot(busiestSlot(report));
  setZone(busiestZone(report));
  cityChart(report, state.slot);
  profileCharts(report);
  totalsDrawn = totalsChart(report, setZone);
  if (totalsDrawn) markTotal(report, state.zone);
  boxCharts(report);
  worstZones(report, setZone);
}

function zoneFacts(report, zone) {
  const { mre, pearson, exactMean, coverage } = report.byZone;
  if (exactMean[zone] === 0) return "Nobody was seen here in the whole window: all that is released is noise.";
  const inside = coverage ? `, ${percent(coverage[zone])} in interval` : "";
  return `Raw mean ${people(exactMean[zone])} people, relative error ${percent(mre[zone])}, correlation ${correlation(pearson[zone])}${inside}`;
}

const largest = (values, count) => values.slice(0, count).reduce((best, value, i) => (value > values[best] ? i : best), 0);
const busiestSlot = (report) => largest(report.city.released, report.slots);
const busiestZone = (report) => largest(report.byZone.exactMean, report.byZone.exactMean.length);

function fillZoneList(report, setZone) {
  const select = byId("zone");
  const order = report.zones.ids.map((_, zone) => zone);
  const labels = order.map((zone) => zoneLabel(report.zones, zone));
  const collator = new Intl.Collator("en", { numeric: true });
  order.sort((a, b) => collator.compare(labels[a], labels[b]));
  for (const zone of order) {
    const option = element("option", labels[zone]);
    option.value = String(zone);
    select.append(option);
  }
  select.addEventListener("change", () => setZone(Number(select.value)));
}

function wireTime(report, state, setSlot, setPlaying) {
  const slider = byId("slot");
  slider.max = String(report.slots - 1);
  slider.disabled = byId("play").disabled = report.slots < 2;
  slider.addEventListener("input", () => setSlot(Number(slider.value)));
  byId("play").addEventListener("click", () => setPlaying(!state.timer));
  document.addEventListener("keydown", (event) => {
    const busy = event.target.closest && event.target.closest("input, select");
    if (busy || event.ctrlKey || event.metaKey || event.altKey || report.slots < 2) return;
    if (event.key === "ArrowRight") setSlot(state.slot + 1);
    else if (event.key === "ArrowLeft") setSlot(state.slot - 1);
    else return;
    event.preventDefault();
  });
}

// Pointing at a zone of a map shows `linesOf` it, a click picks it.
function wirePointer(map, tooltip, redraw, pick, linesOf) {
  const canvas = map.canvas;
  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top, width: box.width, height: box.height };
  };
  canvas.addEventListener("pointermove", (event) => {
    const { x, y, width, height } = placeOf(event);
    const zone = map.zoneAt(x, y);
    if (zone !== map.hovered) { map.hovered = zone; redraw(); }
    tooltip.hidden = zone < 0;
    if (zone < 0) return;
    tooltip.replaceChildren(...linesOf(zone));
    tooltip.style.top = y < height / 2 ? `${y + 16}px` : "auto";
    tooltip.style.bottom = y < height / 2 ? "auto" : `${height - y + 12}px`;
    tooltip.style.left = x < width / 2 ? `${x + 14}px` : "auto";
    tooltip.style.right = x < width / 2 ? "auto" : `${width - x + 14}px`;
  });
  canvas.addEventListener("pointerleave", () => { tooltip.hidden = true; map.hovered = -1; redraw(); });
  canvas.addEventListener("click", (event) => {
    const { x, y } = placeOf(event);
    const zone = map.zoneAt(x, y);
    if (zone >= 0) pick(zone);
  });
}

function tooltipLines(report, zone, slot) {
  const at = zone * report.slots + slot, { exact, released, low, high } = report.values;
  return [
    element("b", zoneLabel(report.zones, zone)),
    element("div", `Released ${people(released[at])} people`),
    element("div", `95 % interval ${people(low[at])} to ${people(high[at])}`),
    element("div", `Raw ${people(exact[at])} (difference ${signedPeople(released[at] - exact[at])})`),
  ];
}

const WORST_SHOWN = 15;

function worstZones(report, setZone) {
  const { mre, mae, exactMean } = report.byZone;
  const order = mre.map((_, zone) => zone).filter((zone) => mre[zone] !== null);
  order.sort((a, b) => mre[b] - mre[a]);
  if (!order.length) { byId("worst").append(element("p", "No zone has a relative error: nobody was seen.", "empty")); return; }
  const table = document.createElement("table"), head = table.insertRow();
  ["Zone", "Relative error", "Absolute error (people)", "Raw mean (people)"].forEach((name, i) =>
    head.append(element("th", name, i ? "num" : "")));
  for (const zone of order.slice(0, WORST_SHOWN)) {
    const row = table.insertRow(), button = element("button", zoneLabel(report.zones, zone), "linkish");
    button.type = "button";
    button.addEventListener("click", () => { setZone(zone); byId("map-panel").scrollIntoView({ block: "center" }); });
    row.insertCell().append(button);
    for (const value of [percent(mre[zone]), people(mae[zone]), people(exactMean[zone])])
      row.append(element("td", value, "num"));
  }
  byId("worst").append(table);
}

try { start(readPayload()); } catch (error) { showFailure(error); }
