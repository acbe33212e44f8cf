// Methods compared: one line per method in each chart, the same colour everywhere.

const EPSILON = "Epsilon the method was set at (smaller: more noise)";
const CHARTS = [
  ["mre", "Mean relative error (%)", {}, ",.1%"],
  ["pc", "Pearson correlation", { rangemode: "normal" }, ".3f"],
  ["emd_m", "EMD (metres)", {}, ",.0f"],
  ["bias", "Bias of the total (%)", { rangemode: "normal", zeroline: true }, "+,.2%"],
  ["mae", "Off by (people per zone and slot)", {}, ",.1f"],
  ["coverage", "Covered (%)", { rangemode: "normal" }, ",.1%"],
];
const SHARES = new Set(["mre", "bias", "coverage"]);
const WIDE = new Set(["mre", "emd_m", "mae"]);  // may differ by decades
const TICKS = 10;  // no more than about so many on an axis
const DASHES = ["solid", "dash", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
const LOG_FROM = 25;  // a log chart where the worst is this many times the best

const logNumber = (value) => value.toLocaleString("en");
const logPercent = (value) => `${(100 * value).toLocaleString("en", { maximumSignificantDigits: 3 })}%`;

// More methods than colours: the colours come again with other marks.
function styleOf(line, i) {
  const round = Math.floor(i / LINE_COLOURS.length);
  return {
    line: { color: LINE_COLOURS[i % LINE_COLOURS.length], width: 2, dash: line.sound ? DASHES[0] : "dot" },
    symbol: SYMBOLS[(i + round) % SYMBOLS.length] + (line.sound ? "" : "-open"),
  };
}

function start(compared) {
  const styles = new Map(compared.lines.map((line, i) => [line.method, styleOf(line, i)]));
  legend(compared, styles);
  for (const chart of CHARTS) epsilonChart(compared, styles, chart);
  slotCharts(compared, styles);
  boxCharts(compared, styles);
}

function epsilonChart(compared, styles, [key, yTitle, yaxis, format]) {
  const lines = compared.lines.filter((line) => line[key].mean.some((value) => value !== null));
  if (!lines.length) { emptyChart(`by-${key}`, "Not computed."); return; }
  const epsilons = [...new Set(lines.flatMap((line) => line.epsilon))].sort((a, b) => a - b);
  const traces = lines.map((line) => epsilonTrace(line, key, styles.get(line.method), format));
  const pad = epsilons.length > 1 ? 0.06 * Math.log10(epsilons.at(-1) / epsilons[0]) : 0.3;
  const scaled = WIDE.has(key) ? logWhereWide(lines.flatMap((line) => line[key].mean), yTitle, key === "mre") : { title: yTitle };
  plot(`by-${key}`, traces, layout(EPSILON, scaled.title, {
    hovermode: "closest",
    xaxis: { type: "log", tickvals: epsilons, ticktext: epsilons.map(String), range: [Math.log10(epsilons[0]) - pad, Math.log10(epsilons.at(-1)) + pad] },
    yaxis: { ...yaxis, ...shareTicks(lines, key), ...scaled.axis },
  }));
}

// Percent with as many decimals as tell neighbouring ticks apart.
function shareTicks(lines, key) {
  if (!SHARES.has(key)) return {};
  const drawn = lines.flatMap((line) => [...line[key].least, ...line[key].most]).filter((value) => value !== null);
  if (key !== "coverage") drawn.push(0);
  const span = 100 * (Math.max(...drawn) - Math.min(...drawn)) || 1;
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(span / TICKS)), 0), 4);
  return { tickformat: `${key === "bias" ? "+" : ""},.${decimals}%` };
}

// A log axis where the largest value is far above the smallest, and none is 0.
function logWhereWide(values, title, isShare) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known), high = Math.max(...known);
  if (!(low > 0 && high / low > LOG_FROM)) return { title, axis: {} };
  const words = isShare ? logPercent : logNumber;
  return { title: `${title}, log scale`, axis: { type: "log", rangemode: "normal", ...logTicks(low, high, words) } };
}

function epsilonTrace(line, key, style, format) {
  const { mean, least, most } = line[key];
  const repeated = mean.some((value, i) => value !== null && most[i] > least[i]);
  const bars = { type: "data", symmetric: false, array: mean.map((v, i) => most[i] - v), arrayminus: mean.map((v, i) => v - least[i]), thickness: 1.2, width: 4, color: style.line.color };
  return {
    x: line.epsilon, y: mean, mode: "lines+markers", name: plotText(line.method), line: style.line, connectgaps: false,
    marker: { size: 8, symbol: style.symbol }, error_y: repeated ? bars : undefined,
    hovertemplate: `${plotText(line.method)}<br>epsilon %{x}: %{y:${format}}<extra></extra>`,
  };
}

// One legend for all charts, in the page rather than in each chart; a click hides or shows a method everywhere.
function legend(compared, styles) {
  const box = document.getElementById("legend");
  for (const line of compared.lines) {
    const button = element("button", undefined, "method"), swatch = element("i"), style = styles.get(line.method);
    swatch.style.borderTop = `3px ${line.sound ? "solid" : "dotted"} ${style.line.color}`;
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(swatch, element("span", line.method + (line.sound ? "" : " (comparison only)")));
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      toggle(plotText(line.method), shown);
    });
    box.append(button);
  }
}

function toggle(name, shown) {
  for (const node of document.querySelectorAll(".chart")) {
    if (!node.data) continue;
    const which = node.data.map((trace, i) => (trace.name === name ? i : -1)).filter((i) => i >= 0);
    if (which.length) Plotly.restyle(node, { visible: shown }, which);
  }
}

function slotCharts(compared, styles) {
  const slots = compared.slots;
  if (!slots) { document.getElementById("over-time").hidden = true; return; }
  document.getElementById("slots-epsilon").textContent = `Methods set at epsilon ${slots.epsilon}, one run of each.`;
  const axis = slotAxis(slots, slots.slotLabels.length);
  const trace = (name, values, format) => {
    const style = styles.get(name) || { line: RELEASED, symbol: "circle" };
    return lineTrace(slots, plotText(name), values, { ...style.line, width: 1.6 }, style.symbol, format);
  };
  zonePanels(slots, axis, trace);
  const charts = [
    ["slot-mre", slots.mre, "Error (% of raw count)", { tickformat: ",.0%" }, ",.1%"],
    ["slot-emd", slots.emd_m, "EMD (metres)", {}, ",.0f"],
  ];
  // What is missing leaves its space to the other, before that one measures its own.
  for (const [id, pairs] of charts) if (!pairs.length) document.getElementById(id).parentElement.remove();
  for (const [id, pairs, yTitle, yaxis, format] of charts.filter(([, pairs]) => pairs.length)) {
    const scaled = logWhereWide(pairs.flatMap(([, values]) => values), yTitle, id === "slot-mre");
    plot(id, pairs.map(([name, values]) => trace(name, values, format)),
      layout("Start of slot, local time", scaled.title, { xaxis: axis, yaxis: { ...yaxis, ...scaled.axis } }));
  }
}

// The zone as each method gives it, beside the raw series: a panel each, since the noisiest hides all others.
function zonePanels(slots, axis, trace) {
  if (!slots.zonePeople.length) return;
  document.getElementById("zone-title").textContent = slots.zone ? `People in ${slots.zone}` : "People in one zone";
  const panels = document.getElementById("zone-panels");
  panels.replaceChildren(...slots.zonePeople.map((_, i) => {
    const node = element("div", undefined, "chart");
    node.id = `zone-panel-${i}`;
    return node;
  }));
  const raw = slots.zoneExact ? [lineTrace(slots, "Raw", slots.zoneExact, { color: "#000000", width: 1.6 }, "diamond-open", ",.1f")] : [];
  const ticks = { ...axis, tickvals: axis.tickvals.filter((_, i) => i % 2 === 0), ticktext: axis.ticktext.filter((_, i) => i % 2 === 0) };
  slots.zonePeople.forEach(([name, values], i) => plot(`zone-panel-${i}`, [...raw, trace(name, values, ",.1f")],
    layout("Start of slot, local time", `People per ${slots.slotWord}`, { xaxis: ticks, showlegend: true, margin: { l: 58, r: 10, t: 26, b: 40 } })));
}

function boxCharts(compared, styles) {
  const boxes = compared.boxes;
  if (!boxes.length) { document.getElementById("over-zones").hidden = true; return; }
  const colourOf = (box) => (styles.get(box.method) || { line: RELEASED }).line.color;
  for (const [key, yTitle, format, ends] of [
    ["mre", "Relative error of a zone (%)", ",.0%", { minallowed: 0 }],
    ["pc", "Correlation of a zone", ".2f", { minallowed: -1.02, maxallowed: 1.02 }],
  ]) {
    const traces = boxes.flatMap((box, i) => (box[key].count
      ? boxTraces(box[key], format, i, colourOf(box), "rgba(255,255,255,0)").map((trace) => ({ ...trace, name: plotText(box.method) }))
      : []));
    if (!traces.length) { emptyChart(`box-${key}`, "Not defined for any zone."); continue; }
    const reach = boxes.filter((box) => box[key].count).flatMap((box) => [box[key].whisker_low, box[key].whisker_high, ...box[key].outliers]);
    const scaled = key === "mre" ? logWhereWide(reach, yTitle, true) : { title: yTitle, axis: {} };
    plot(`box-${key}`, traces, layout("Epsilon the method was set at", scaled.title, {
      hovermode: "closest", margin: { l: 58, r: 34, t: 74, b: 44 }, annotations: groupNames(boxes, colourOf),
      xaxis: { tickvals: boxes.map((_, i) => i), ticktext: boxes.map((box) => String(box.epsilon)), range: [-0.6, boxes.length - 0.4], showgrid: false, zeroline: false },
      yaxis: { tickformat: format, rangemode: "normal", ...(scaled.axis.type ? scaled.axis : ends) },
    }));
  }
}

// The name of each method above its boxes, aslant so that neighbours do not touch.
function groupNames(boxes, colourOf) {
  const middles = new Map();
  boxes.forEach((box, i) => middles.set(box.method, [...(middles.get(box.method) || []), i]));
  return [...middles].map(([method, places]) => ({
    text: plotText(method), x: places[0], y: 1, yref: "paper", xanchor: "left", yanchor: "bottom", textangle: -35,
    showarrow: false, font: { color: colourOf(boxes[places[0]]), size: 12 },
  }));
}

try { start(readJson()); } catch (error) { showFailure(error); }
